import type { Assignment, EngineRole } from "@keelson/middleware-agent";
import type { ServerState } from "../server/server-state.ts";

/** The last assignment of a server. */
export interface AssignmentRecord extends Assignment {
  /** Whether this was a primary and has not streamed from its successor yet. It may have data that its successor does not have. */
  readonly isPending?: boolean;
}

/**
 * How much a server's data counts in an election, given the end of its log. A former primary may have data that its successor lacks, so
 * until it has streamed from its successor it ranks below every other server, but above an empty one.
 */
export function amountOf(position: number, record: AssignmentRecord | undefined): number {
  return record?.isPending === true ? Math.min(position, 1) : position;
}

/** The primary that a server at `host` follows, or its own address. */
export function hostOf(record: AssignmentRecord | undefined, host: string): string | undefined {
  return record?.role === "replica" ? record.primaryHost : record && host;
}

/**
 * The role that a server with this record reports; without one, none was assigned since it was started. `isPrimary`: whether it acts as
 * the primary that it was assigned to be.
 */
export function roleOf(
  record: AssignmentRecord | undefined,
  { hasData, isPrimary }: { readonly hasData: boolean; readonly isPrimary: boolean },
): EngineRole["role"] {
  if (record === undefined) return hasData ? "recovering" : "unassigned";
  if (record.role === "replica") return "replica";
  return isPrimary ? "primary" : "recovering";
}

/** What an agent reports about the state of its server; undefined while it does not run. `position`: the last known end of its log. */
export function infoOf(
  state: ServerState | undefined,
  record: AssignmentRecord | undefined,
  position: number,
): Readonly<Record<"epoch" | "keys" | "offset" | "pid" | "timeline" | "replayLagBytes" | "synchronousReplicas", string>> {
  return {
    epoch: String(record?.epoch ?? 0),
    // After a restart of all Pods, the log is the measure of the data.
    keys: String(amountOf(position, record)),
    // A server that is being rewound or copied cannot be promoted.
    offset: String(amountOf(state?.position ?? 0, record)),
    pid: state?.pid ?? "",
    timeline: state?.timeline ?? "",
    replayLagBytes: String(state?.replayLagBytes ?? 0),
    synchronousReplicas: String(state?.synchronousReplicas ?? 0),
  };
}
