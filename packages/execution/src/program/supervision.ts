import type { Clock } from "@keelson/api-machinery/time";
import type { LogRotations } from "../logs/rotate-log.ts";
import type { Launcher } from "../process/launcher.ts";
import type { Deadlines } from "./deadlines.ts";
import type { Unmounter } from "./files/size-limit.ts";

/** What programs share with their driver. */
export interface Supervision {
  readonly clock: Clock;
  readonly deadlines: Deadlines;
  readonly launcher: Launcher;
  readonly unmounter: Unmounter;
  readonly rotations: LogRotations;
  /** Directory into which a removed program's directory moves before its files are deleted. */
  readonly trash: string;
  readonly forget: (id: string) => void;
}

/**
 * Maximum time between the start of a shim, which is all that a later supervisor knows, and that of its program. An adopted program gets
 * this time in addition to its time limit.
 */
export const maxStartupMs = 100;
