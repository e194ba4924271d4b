import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import type { Program } from "../driver.ts";
import { hasEnded, readStat } from "../process/proc.ts";

/**
 * Path of the network namespace of a running program with `isolation.network: "none"`, for nsenter(1); undefined if it is not running, or
 * has not entered its namespaces yet. Needs root.
 */
export function networkNamespaceOf({ state, logs }: Pick<Program, "state" | "logs">): string | undefined {
  if (state.kind !== "running") return undefined;
  const pid = bubblewrapChild(bubblewrapStatusFile(dirname(logs.stdout)), state.pid) ?? state.pid;
  return readStat(pid) === undefined ? undefined : `/proc/${pid}/ns/net`;
}

/** The file in a program's directory to which bubblewrap reports. */
export const bubblewrapStatusFile = (folder: string): string => join(folder, "bwrap-status.json");

/** The process that bubblewrap runs in the namespaces; undefined without bubblewrap, 0 if it does not exist yet, -1 if it has ended. */
export function bubblewrapChild(statusFile: string, wrapper: number): number | undefined {
  let status: string;
  try {
    status = readFileSync(statusFile, "utf8");
  } catch {
    return undefined;
  }
  const child = Number(/"child-pid": (\d+)/.exec(status)?.[1] ?? 0);
  if (child === 0) return 0;
  const stat = readStat(child);
  if (stat === undefined || hasEnded(stat)) return -1;
  // The pid may have been reused. A process of script(1) may be in between.
  const { parent } = stat;
  return parent === wrapper || (parent > 1 && readStat(parent)?.parent === wrapper) ? child : -1;
}
