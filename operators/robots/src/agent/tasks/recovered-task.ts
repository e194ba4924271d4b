import { parseJsonObject } from "@keelson/api-machinery";
import type { Program } from "@keelson/execution";
import type { HeldTask, TaskLease } from "../held-task.ts";

/** First sequence number after a damaged record: above any number that its task can have reached. */
const seqAfterDamage = 1000;

/**
 * A task whose record is lost or damaged, from what its program was started with. It is `accepted`, so that its start is reported again.
 * Its order is lost: this robot does not restart it.
 */
export function recoveredTask(uid: string, { spec }: Pick<Program, "spec">, now: number): HeldTask {
  const { attempt, run = 0, lease } = spec.metadata ?? {};
  const number = Number(attempt);
  return {
    ...{ uid, attempt: number, programAttempt: number, run: Number(run) },
    ...{ phase: "accepted", seq: seqAfterDamage, isAcknowledged: true, ticks: 0, changedAt: now },
    ...(lease !== undefined && { lease: parseLease(lease) }),
  };
}

/** The lease of a program. One that cannot be parsed expires immediately. */
function parseLease(text: string): TaskLease {
  const { durationMs, graceMs } = parseJsonObject(text) ?? {};
  return { durationMs: typeof durationMs === "number" ? durationMs : 0, graceMs: typeof graceMs === "number" ? graceMs : 0 };
}
