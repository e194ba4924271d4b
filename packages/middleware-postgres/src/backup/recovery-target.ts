import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { AgentError, type LogSource, type RecoveryTarget } from "@keelson/middleware-agent";
import { parseHistoryName } from "../log/log-position.ts";
import type { Settings } from "../server/postgres-config.ts";
import type { ServerFiles } from "../server/server-files.ts";
import { parsePosition, parseSwitches, type TimelineSwitch } from "../roles/timeline.ts";
import type { LogRange } from "./backup-manifest.ts";

/** Settings of a server that recovers to a target. Undefined: the state of the backup. Throws an `AgentError` if it is not valid. */
export function settingsOf(target: RecoveryTarget | undefined): Settings {
  switch (target?.kind) {
    case undefined:
      return [["recovery_target", "immediate"]];
    case "latest":
      return [];
    case "time":
      if (Number.isNaN(Date.parse(target.time))) throw refused(`the time ${target.time} must be in RFC 3339`);
      return [["recovery_target_time", new Date(target.time).toISOString().replace("T", " ").replace("Z", "+00")]];
    case "position":
      if (!/^[0-9A-Fa-f]{1,8}\/[0-9A-Fa-f]{1,8}$/.test(target.position))
        throw refused(`the position ${target.position} must be an LSN such as 0/3000148`);
      return [["recovery_target_lsn", target.position]];
  }
}

/** The timeline to recover along, and the newest one in the archive. */
export interface RecoveryPath {
  readonly timeline: number;
  readonly newest: number;
}

/** Writes the archived histories for the server, and chooses the newest timeline that a backup can be recovered along. */
export async function fetchHistories(log: LogSource, backup: LogRange, files: ServerFiles): Promise<RecoveryPath> {
  const histories: { readonly timeline: number; readonly switches: readonly TimelineSwitch[] }[] = [];
  for (const name of log.names) {
    const timeline = parseHistoryName(name);
    if (timeline === undefined) continue;
    const chunks: Uint8Array[] = [];
    for await (const chunk of log.read(name)) chunks.push(chunk);
    const data = Buffer.concat(chunks);
    const path = join(files.path("log"), name);
    await writeFile(path, data, { mode: 0o600 });
    await files.own(path);
    histories.push({ timeline, switches: parseSwitches(data.toString("utf8")) });
  }
  return choosePath(histories, backup);
}

/** Chooses the newest timeline that continues that of a backup after it ends. Pure. */
export function choosePath(
  histories: readonly { readonly timeline: number; readonly switches: readonly TimelineSwitch[] }[],
  { timeline, end }: Pick<LogRange, "timeline" | "end">,
): RecoveryPath {
  const isChild = (switches: readonly TimelineSwitch[]): boolean =>
    switches.some((each) => each.timeline === timeline && each.position >= parsePosition(end));
  const timelines = histories.filter(({ switches }) => isChild(switches)).map((each) => each.timeline);
  return {
    timeline: Math.max(timeline, ...timelines),
    newest: Math.max(timeline, ...histories.map((each) => each.timeline)),
  };
}

const refused = (message: string): AgentError => new AgentError("SnapshotFailed", message);
