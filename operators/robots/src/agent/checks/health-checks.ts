import type { Clock, Timer } from "@keelson/api-machinery/time";
import type { Program } from "@keelson/execution";
import type { AgentEvent } from "../held-task.ts";
import type { ProgramName } from "../tasks/task-program.ts";
import { withoutControls } from "../tasks/task-reports.ts";
import { type CheckResult, type CheckState, checkStep, type Health, healthOf, initialCheckState } from "./check-state.ts";
import { runCheck } from "./run-check.ts";
import type { TaskCheck } from "./task-checks.ts";

/** Maximum time from the start of a program to its first checks. */
const firstCheckMs = 1_000;

const maxMessageLength = 200;

/** Options of {@link HealthChecks}. */
export interface HealthChecksOptions {
  readonly clock: Clock;
  readonly onEvent: (event: AgentEvent) => Promise<void>;
  /** Runs a check once. Default: {@link runCheck}. */
  readonly run?: typeof runCheck;
}

/** Runs the health checks of running programs, and reports their health and which of them are to be restarted. */
export class HealthChecks {
  readonly #options: HealthChecksOptions;
  readonly #watched = new Map<string, () => void>();

  constructor(options: HealthChecksOptions) {
    this.#options = options;
  }

  /** Checks a program until {@link forget}. */
  watch(name: ProgramName, program: Program, checks: readonly TaskCheck[]): void {
    if (checks.length === 0 || this.#watched.has(program.id)) return;
    this.#watched.set(program.id, watchProgram(name, program, checks, this.#options));
  }

  /** Ends the checks of a program that has ended. */
  forget(programId: string): void {
    this.#watched.get(programId)?.();
    this.#watched.delete(programId);
  }

  /** Ends all checks. */
  stop(): void {
    for (const id of [...this.#watched.keys()]) this.forget(id);
  }
}

/** Returns a function that ends the checks. */
function watchProgram(
  name: ProgramName,
  program: Program,
  checks: readonly TaskCheck[],
  { clock, onEvent, run = runCheck }: HealthChecksOptions,
): () => void {
  const stopped = new AbortController();
  const { signal } = stopped;
  const timers = new Map<TaskCheck, Timer>();
  const states = new Map<TaskCheck, CheckState>(checks.map((check) => [check, initialCheckState(check)]));
  const watchedAt = clock.monotonic();
  let reported: Health | undefined;

  const report = (): void => {
    const found = healthOf([...states]);
    if (found === undefined || found.health === reported) return;
    reported = found.health;
    void onEvent({ kind: "checked", ...name, ...found });
  };
  const add = (check: TaskCheck, { status, message }: CheckResult): void => {
    const text = withoutControls(message).slice(0, maxMessageLength);
    const before = states.get(check) ?? initialCheckState(check);
    const { state, restart } = checkStep(check, before, { status, message: text }, clock.monotonic() - watchedAt);
    states.set(check, state);
    report();
    if (restart === undefined) return;
    stop();
    void onEvent({ kind: "checked", ...name, health: "failing", message: restart, restart: true });
  };
  const arm = (check: TaskCheck, delayMs: number): void => {
    const ask = async (): Promise<void> => {
      const result = await run(check, program, { clock, signal });
      if (signal.aborted) return;
      add(check, result);
      if (!signal.aborted) arm(check, check.intervalMs);
    };
    timers.set(
      check,
      clock.setTimer(delayMs, () => void ask(), { background: true }),
    );
  };
  const stop = (): void => {
    stopped.abort();
    for (const timer of timers.values()) timer.cancel();
  };
  report();
  for (const check of checks) arm(check, Math.min(check.intervalMs, firstCheckMs));
  return stop;
}
