import { parseJsonObject } from "@keelson/api-machinery";
import type { Program } from "@keelson/execution";
import { taskUidPattern } from "../../protocol/messages.ts";
import type { HeldTask, TaskLease } from "../held-task.ts";
import { withoutGrant } from "../leases/task-lease.ts";
import { programId } from "./task-program.ts";
import type { TaskRunnerOptions } from "./task-runner.ts";

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

/** Loads the tasks of the last agent, including those whose record is lost or damaged but whose program is known. */
export async function loadTasks(
  options: Pick<TaskRunnerOptions, "driver" | "records" | "guard" | "bootId" | "clock" | "log">,
): Promise<Map<string, HeldTask>> {
  const { driver, records, guard, bootId, clock, log } = options;
  const { tasks, damaged } = await records.load();
  const known = new Map(
    tasks.map((task) => {
      const { uid, programAttempt = 0, run } = task;
      // Without a program, the next grant starts it.
      const hasProgram = task.phase !== "accepted" || driver.get(programId(uid, programAttempt, run)) !== undefined;
      return [uid, hasProgram ? task : withoutGrant(task)];
    }),
  );
  for (const uid of damaged) log.error({ task: uid }, "damaged task record moved aside");
  for (const program of driver.list()) {
    const { uid, init } = program.spec.metadata ?? {};
    if (uid === undefined || init !== undefined || !taskUidPattern.test(uid) || known.has(uid)) continue;
    const task = recoveredTask(uid, program, clock.now());
    // Without its end, the lease counts as expired.
    const held = task.lease && { bootId, untilMs: (await guard.endOf(program.id)) ?? 0 };
    known.set(uid, task.lease === undefined || held === undefined ? task : { ...task, lease: { ...task.lease, held } });
  }
  return known;
}

/** The lease of a program. One that cannot be parsed expires immediately. */
function parseLease(text: string): TaskLease {
  const { durationMs, graceMs } = parseJsonObject(text) ?? {};
  return { durationMs: typeof durationMs === "number" ? durationMs : 0, graceMs: typeof graceMs === "number" ? graceMs : 0 };
}
