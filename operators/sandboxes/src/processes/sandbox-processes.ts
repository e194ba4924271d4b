import { jsonEquals } from "@keelson/api-machinery";
import type { Clock } from "@keelson/api-machinery/time";
import type { ExecSession, ExecSpec, Program } from "@keelson/execution";
import { ProcessError } from "./process-error.ts";
import type { ProcessOperation, ProcessResult, ProcessStart } from "./process-operations.ts";
import { SandboxProcess } from "./sandbox-process.ts";

/** Maximum number of processes per sandbox, those that have exited included: their output is in the agent's memory. */
const maxProcesses = 32;

/** What a process needs of the program that it runs alongside. */
export type ProcessHost = Pick<Program, "id" | "exited"> & { exec(spec: ExecSpec): Promise<ExecSession> };

/** The processes alongside the sandboxes of an agent. They end with their sandbox. */
export class SandboxProcesses {
  readonly #clock: Clock;
  readonly #begin: (sandboxId: string) => () => void;
  readonly #sandboxes = new Map<string, Map<string, Starting>>();

  /** `begin` registers a use of a sandbox and returns what ends it. */
  constructor(clock: Clock, begin: (sandboxId: string) => () => void) {
    this.#clock = clock;
    this.#begin = begin;
  }

  /** Runs an operation. Rejects with a {@link ProcessError}, or the `ExecutionError` of a start. */
  async run(host: ProcessHost, operation: ProcessOperation): Promise<ProcessResult> {
    if (operation.kind === "list") {
      const all = await Promise.allSettled([...(this.#sandboxes.get(host.id)?.values() ?? [])].map(({ process }) => process));
      return { processes: all.flatMap((each) => (each.status === "fulfilled" ? [each.value.status] : [])) };
    }
    const process =
      operation.kind === "start" ? await this.#start(host, operation) : await this.find(host, operation.processId);
    switch (operation.kind) {
      case "input":
        await process.write(operation.offset, Buffer.from(operation.data, "base64"), operation.isEnd);
        break;
      case "signal":
        await process.signal(operation.signal);
        break;
      case "resize":
        await process.resize(operation.size);
        break;
    }
    return { processes: [process.status] };
  }

  /** A process of a sandbox. Rejects with a {@link ProcessError}. */
  async find({ id }: ProcessHost, processId: string): Promise<SandboxProcess> {
    const known = this.#sandboxes.get(id)?.get(processId);
    if (known === undefined) throw new ProcessError("NotFound", `process ${processId} not found in the sandbox`);
    return known.process;
  }

  #start(host: ProcessHost, spec: ProcessStart): Promise<SandboxProcess> {
    const processes = this.#processesOf(host);
    const known = processes.get(spec.processId);
    if (known !== undefined) {
      if (jsonEquals(known.spec, spec)) return known.process;
      throw new ProcessError("Conflict", `process_id: ${spec.processId} is used by another command`);
    }
    makeRoom(processes);
    const entry: Starting = { spec, process: this.#launch(host, spec), hasEnded: false };
    processes.set(spec.processId, entry);
    entry.process.then(
      (process) => process.ended.then(() => (entry.hasEnded = true)),
      () => processes.delete(spec.processId),
    );
    return entry.process;
  }

  async #launch(host: ProcessHost, spec: ProcessStart): Promise<SandboxProcess> {
    const endUse = this.#begin(host.id);
    try {
      const { command, env, workingDir, user, terminal } = spec;
      const session = await host.exec({
        ...{ command, env },
        ...(workingDir !== undefined && { cwd: workingDir }),
        ...(user !== undefined && { user }),
        ...(terminal !== undefined && { terminal }),
      });
      const process = new SandboxProcess(spec, session, this.#clock);
      void process.ended.then(endUse);
      return process;
    } catch (error) {
      endUse();
      throw error;
    }
  }

  #processesOf(host: ProcessHost): Map<string, Starting> {
    const present = this.#sandboxes.get(host.id);
    if (present !== undefined) return present;
    const processes = new Map<string, Starting>();
    this.#sandboxes.set(host.id, processes);
    void host.exited().then(() => this.#sandboxes.delete(host.id));
    return processes;
  }
}

/** A process that is starting, runs or has ended. */
interface Starting {
  readonly spec: ProcessStart;
  readonly process: Promise<SandboxProcess>;
  hasEnded: boolean;
}

/** Forgets the oldest process that has ended if the limit is reached. */
function makeRoom(processes: Map<string, Starting>): void {
  if (processes.size < maxProcesses) return;
  // A map iterates in insertion order, oldest first.
  const oldest = [...processes].find(([, { hasEnded }]) => hasEnded);
  if (oldest === undefined)
    throw new ProcessError("TooMany", `too many processes in the sandbox: the limit is ${maxProcesses}; wait for one to exit`);
  processes.delete(oldest[0]);
}
