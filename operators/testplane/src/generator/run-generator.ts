import type { Clock, Timer } from "@keelson/api-machinery/time";
import type { GeneratorReport } from "./generator-report.ts";
import type { LoadPlan } from "./load-plan.ts";
import { LoadRecorder } from "./load-recorder.ts";
import { LoadRun } from "./load-run.ts";
import type { Requester } from "./requester.ts";

const reportIntervalMs = 1_000;

/** What a worker of the load generator runs with. */
export interface GeneratorOptions {
  readonly plan: LoadPlan;
  readonly requester: Requester;
  readonly clock: Clock;
  /** Longest pause of the event loop so far. */
  readonly maxPauseMs: () => number;
  readonly print: (line: string) => Promise<void>;
  /** Ends the load early; the result is then incomplete. */
  readonly signal: AbortSignal;
}

/** Runs the load of one worker. Prints a report every second and at the end, and resolves to the last one. */
export async function runGenerator(options: GeneratorOptions): Promise<GeneratorReport> {
  const { plan, requester, clock, maxPauseMs, print, signal } = options;
  const recorder = new LoadRecorder();
  const run = new LoadRun({ plan, requester, recorder, clock });
  const reportNow = (kind: GeneratorReport["keelsonLoad"], isComplete: boolean): GeneratorReport =>
    recorder.report(kind, run.elapsedMs, { isComplete, maxPauseMs: maxPauseMs() });
  let timer: Timer | undefined;
  const tick = (): void => {
    timer = clock.setTimer(reportIntervalMs, () => {
      void print(JSON.stringify(reportNow("progress", false)));
      tick();
    });
  };
  const onAbort = (): void => run.stop();
  signal.addEventListener("abort", onAbort, { once: true });
  try {
    tick();
    const ended = run.run();
    if (signal.aborted) run.stop();
    await ended;
    const report = reportNow("result", !signal.aborted);
    await print(JSON.stringify(report));
    return report;
  } finally {
    timer?.cancel();
    signal.removeEventListener("abort", onAbort);
    await requester.close();
  }
}
