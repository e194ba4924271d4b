import type { Clock } from "@keelson/api-machinery/time";
import type { Launcher } from "../process/launcher.ts";
import type { Deadlines } from "./deadlines.ts";

/** What programs share with their driver. */
export interface Supervision {
  readonly clock: Clock;
  readonly deadlines: Deadlines;
  readonly launcher: Launcher;
  /** Folder into which a removed program's folder moves before its files are deleted. */
  readonly trash: string;
  readonly forget: (id: string) => void;
}
