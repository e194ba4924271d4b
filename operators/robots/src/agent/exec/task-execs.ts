import { type Clock, sleep } from "@keelson/api-machinery/time";
import type { Logger } from "@keelson/controller";
import type { Driver, ExecSession } from "@keelson/execution";
import type { ExecMessage, ExecReport, ExecStart } from "../../protocol/exec-messages.ts";
import type { LogsStart } from "../../protocol/log-messages.ts";
import type { HeldTask } from "../held-task.ts";
import { IssuedOnce } from "../issued-once.ts";
import { type AgentPolicy } from "../policy/agent-policy.ts";
import { programProblem } from "../policy/robot-policy.ts";
import { keptProgram, runningProgram } from "../tasks/running-program.ts";
import { openLogs } from "./log-session.ts";
import { TaskExec } from "./task-exec.ts";

/** Maximum number of commands that run at the same time, with readers of output. */
const maxExecs = 8;

/** Maximum number of messages that wait until their command has started. Further ones are lost, which ends the command. */
const maxEarlyMessages = 64;

/** Time between two messages with output. A broker disconnects robots that send more than 100 messages per second for long. */
const paceMs = 20;

/** Options of {@link TaskExecs}. */
export interface TaskExecsOptions {
  readonly driver: Pick<Driver, "get">;
  readonly policy: AgentPolicy;
  readonly taskOf: (uid: string) => HeldTask | undefined;
  /** The server's time when this agent first learned it; undefined: not yet, or the robot has no key. */
  readonly since: () => number | undefined;
  readonly publish: (report: ExecReport) => void;
  readonly clock: Clock;
  readonly log: Logger;
}

/**
 * Runs commands alongside the programs of tasks.
 *
 * **Guarantees**: a command starts at most once, even if its message is repeated or replayed, to this agent or to a later one. It ends with
 * its program, its time, its caller or the agent.
 */
export class TaskExecs {
  readonly #options: TaskExecsOptions;
  readonly #once: IssuedOnce;
  readonly #execs = new Map<string, TaskExec>();
  /** Commands that are being started, and messages about them. */
  readonly #starting = new Map<string, ExecMessage[]>();
  #lastSend: Promise<void> = Promise.resolve();
  readonly #stopped = new AbortController();

  constructor(options: TaskExecsOptions) {
    this.#options = options;
    this.#once = new IssuedOnce(options.since);
  }

  /** Handles a message from the server. */
  receive(message: ExecMessage): void {
    const { id } = message;
    const early = this.#starting.get(id);
    if (message.kind === "start" || message.kind === "logs") void this.#start(id, message);
    else if (early !== undefined) {
      if (early.length < maxEarlyMessages) early.push(message);
    } else this.#execs.get(id)?.receive(message);
  }

  /** Ends all commands. */
  stop(): void {
    this.#stopped.abort();
    for (const exec of this.#execs.values()) exec.kill("the robot's agent is stopping");
  }

  async #start(id: string, start: ExecStart | LogsStart): Promise<void> {
    const { log, publish, clock } = this.#options;
    const { taskUid: task, timeoutMs } = start;
    const what = start.kind === "logs" ? { task } : { task, command: start.command[0] };
    // Not answered: the answer of the first message stands.
    if (this.#starting.has(id) || this.#execs.has(id)) return;
    const session = await this.#open(id, start);
    const early = this.#starting.get(id) ?? [];
    this.#starting.delete(id);
    if (typeof session === "string") {
      log.warn(what, `${start.kind === "logs" ? "request for output" : "command"} rejected: ${session}`);
      publish({ id, seq: 0, kind: "failed", message: session });
      return;
    }
    log.info(what, start.kind === "logs" ? "sending the output of a task" : "running a command alongside a task");
    const onEnd = (): void => void this.#execs.delete(id);
    const exec = new TaskExec({ id, session, timeoutMs, clock, publish, pace: () => this.#pace(), onEnd });
    this.#execs.set(id, exec);
    if (this.#stopped.signal.aborted) exec.kill("the robot's agent is stopping");
    for (const message of early) exec.receive(message);
  }

  async #open(id: string, start: ExecStart | LogsStart): Promise<ExecSession | string> {
    const { driver, taskOf, clock } = this.#options;
    if (this.#execs.size + this.#starting.size >= maxExecs) return `the robot already runs the maximum of ${maxExecs} commands`;
    const problem = this.#once.problemOf(id, start.issuedAt);
    if (problem !== undefined) return problem;
    if (start.kind === "start") return await this.#run(id, start);
    const program = keptProgram(driver, taskOf(start.taskUid), start);
    return typeof program === "string" ? program : openLogs(program, start, clock);
  }

  async #run(id: string, start: ExecStart): Promise<ExecSession | string> {
    const { driver, taskOf, policy } = this.#options;
    const { command, terminal } = start;
    const problem = execProblem(policy, command[0]);
    if (problem !== undefined) return problem;
    const program = runningProgram(driver, taskOf(start.taskUid), start);
    if (typeof program === "string") return program;
    this.#starting.set(id, []);
    try {
      return await program.exec({
        command,
        isContained: true,
        ...(terminal === undefined ? {} : { terminal, env: { TERM: "xterm" } }),
      });
    } catch (error) {
      return error instanceof Error ? error.message : String(error);
    }
  }

  #pace(): Promise<void> {
    const turn = this.#lastSend;
    this.#lastSend = turn.then(() => sleep(this.#options.clock, paceMs, this.#stopped.signal)).catch(() => {});
    return turn;
  }
}

/** Why the robot's owner does not allow a command. */
function execProblem(policy: AgentPolicy, command: string): string | undefined {
  if (policy.exec === false) return "the robot's policy does not allow exec";
  // The user is that of the task, which the policy has allowed.
  const problem = programProblem(
    { ...(policy.commands === undefined ? {} : { commands: policy.commands }) },
    { command, user: undefined },
  );
  return problem?.replace(/^spec\.config: /, "");
}
