import type { Clock } from "@keelson/api-machinery/time";
import type { Program } from "@keelson/execution";
import type { LogTimes } from "../logs/log-reader.ts";
import type { PodView } from "../pod/pod-view.ts";

/** A container of a Pod as logs and exec find it. */
export interface FoundContainer {
  readonly pod: PodView;
  readonly name: string;
  /** Of the attempt that was asked for; `undefined`: it has not started. */
  readonly program: Program | undefined;
  /** The attempt before, for `--previous`. */
  readonly previous: Program | undefined;
  /** When the lines of a program's log were written. */
  times(program: Program): LogTimes;
  readonly clock: Clock;
}
