import type { Clock } from "@keelson/api-machinery/time";
import type { Program } from "@keelson/execution";
import type { LogTimes } from "../logs/line-filter.ts";
import type { PodView } from "../pod/pod-view.ts";

/** A container of a Pod, as used by logs and exec. */
export interface ContainerHandle {
  readonly pod: PodView;
  readonly name: string;
  /** The program of the current attempt; `undefined` if it has not started. */
  readonly program: Program | undefined;
  /** The program of the previous attempt, for `--previous`. */
  readonly previous: Program | undefined;
  /** The times at which the lines of a program's log were written. */
  times(program: Program): LogTimes;
  readonly clock: Clock;
}
