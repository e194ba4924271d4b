import { type DeepReadonly, isConflict, isNotFound } from "@keelson/api-machinery";
import type { Clock } from "@keelson/api-machinery/time";
import type { Client } from "@keelson/client";
import type { Cache, Logger } from "@keelson/controller";
import { Task } from "../api/task.ts";
import type { StatusMessage } from "../protocol/messages.ts";
import { decideReport } from "./report-decision.ts";
import { isLater } from "./resource-versions.ts";

const triesOnConflict = 8;

/** What became of a report. `unwanted`: the robot should let go of the task that it reports about. */
export type ReportOutcome = "stored" | "ignored" | "unwanted";

/** Stores robots' reports on Tasks. Reports on one Task have to be given one after the other. */
export interface Reports {
  /** Settles when the report is stored or known to be of no use. Rejects where neither could be found out. */
  take(robotId: string, report: StatusMessage): Promise<ReportOutcome>;
  /** The cache has this state of a Task now. */
  seen(task: DeepReadonly<Task>): void;
}

/** Makes {@link Reports}. */
export function createReports(options: {
  readonly client: Client;
  readonly cache: Cache;
  readonly clock: Clock;
  readonly namespace: string;
  readonly fieldManager: string;
  readonly log: Logger;
}): Reports {
  const { client, cache, clock, namespace, fieldManager, log } = options;
  /** What was written and the cache does not show yet. */
  const written = new Map<string, DeepReadonly<Task>>();

  const latest = (uid: string): DeepReadonly<Task> | undefined => {
    const cached = cache.list(Task, { namespace, index: ["uid", uid] })[0];
    const own = written.get(uid);
    return own !== undefined && isLater(own.metadata.resourceVersion, cached?.metadata.resourceVersion) ? own : cached;
  };
  const refetch = async (task: DeepReadonly<Task>): Promise<DeepReadonly<Task> | undefined> => {
    try {
      const fresh = await client.get(Task, { namespace, name: task.metadata.name ?? "" });
      return fresh.metadata.uid === task.metadata.uid ? fresh : undefined;
    } catch (error) {
      if (isNotFound(error)) return undefined;
      throw error;
    }
  };
  return {
    async take(robotId, report) {
      let task = latest(report.taskUid);
      // A report of an attempt that the cache does not know yet: it lags behind.
      if (task !== undefined && (report.attempt ?? 0) > (task.status?.attempt ?? 0)) task = await refetch(task);
      for (let attempt = 0; attempt < triesOnConflict; attempt++) {
        if (task === undefined) return report.state === "deleted" ? "ignored" : "unwanted";
        const decision = decideReport(task, robotId, report, clock.now());
        if (decision.kind === "ignore") {
          log.debug({ task: task.metadata.name, robot: robotId, state: report.state }, `report not taken: ${decision.why}`);
          return task.spec.targetRobot !== robotId && report.state !== "deleted" ? "unwanted" : "ignored";
        }
        const { name = "", resourceVersion } = task.metadata;
        try {
          const stored = await client.applyStatus(
            Task,
            { metadata: { name, namespace, resourceVersion }, status: decision.status },
            { fieldManager },
          );
          written.set(report.taskUid, stored);
          return "stored";
        } catch (error) {
          if (isNotFound(error)) return "unwanted";
          if (!isConflict(error)) throw error;
          task = await refetch(task);
        }
      }
      throw new Error(`task ${report.taskUid} changed ${triesOnConflict} times while a report on it was being stored`);
    },
    seen(task) {
      const uid = task.metadata.uid ?? "";
      const own = written.get(uid);
      if (own !== undefined && !isLater(own.metadata.resourceVersion, task.metadata.resourceVersion)) written.delete(uid);
    },
  };
}
