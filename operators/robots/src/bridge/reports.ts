import { type DeepReadonly, isConflict, isNotFound } from "@keelson/api-machinery";
import type { Clock } from "@keelson/api-machinery/time";
import type { Client } from "@keelson/client";
import type { Cache, Logger } from "@keelson/controller";
import { Task } from "../api/task.ts";
import type { StatusMessage } from "../protocol/messages.ts";
import { RobotsError } from "../robots-error.ts";
import { decideReport } from "./report-decision.ts";
import { isLater } from "./resource-versions.ts";

const maxConflicts = 8;

/** Result of a report. `unwanted`: the robot should remove the task that it reports about. */
export type ReportOutcome = "stored" | "ignored" | "unwanted";

/** Options of {@link Reports}. */
export interface ReportsOptions {
  readonly client: Client;
  readonly cache: Cache;
  readonly clock: Clock;
  readonly namespace: string;
  readonly fieldManager: string;
  readonly log: Logger;
}

/** Stores robots' reports in the status of Tasks. */
export class Reports {
  readonly #options: ReportsOptions;
  /** Own writes that the cache does not show yet, by uid. */
  readonly #written = new Map<string, DeepReadonly<Task>>();

  constructor(options: ReportsOptions) {
    this.#options = options;
  }

  /**
   * Stores a report. Reports on one Task must be passed one after the other.
   *
   * **Errors**: rejects if the report could neither be stored nor dismissed; the robot then sends it again.
   */
  async store(robotId: string, report: StatusMessage): Promise<ReportOutcome> {
    const { clock, log } = this.#options;
    let task = this.#latest(report.taskUid);
    // The cache lags behind if it does not show the attempt yet.
    if (task !== undefined && (report.attempt ?? 0) > (task.status?.attempt ?? 0)) task = await this.#refetch(task);
    for (let conflicts = 0; conflicts < maxConflicts; conflicts++) {
      if (task === undefined) return report.state === "deleted" ? "ignored" : "unwanted";
      const decision = decideReport(task, robotId, report, clock.now());
      if (decision.kind === "ignore") {
        log.debug({ task: task.metadata.name, robot: robotId, state: report.state }, `report ignored: ${decision.reason}`);
        return task.spec.targetRobot !== robotId && report.state !== "deleted" ? "unwanted" : "ignored";
      }
      try {
        this.#written.set(report.taskUid, await this.#write(task, decision.status));
        return "stored";
      } catch (error) {
        if (isNotFound(error)) return "unwanted";
        if (!isConflict(error)) throw error;
        task = await this.#refetch(task);
      }
    }
    throw new RobotsError(
      "TooManyConflicts",
      `task ${report.taskUid}: ${maxConflicts} conflicting writes while storing a report`,
    );
  }

  /** Handles a Task as the cache shows it now. */
  taskChanged(task: DeepReadonly<Task>): void {
    const uid = task.metadata.uid ?? "";
    const own = this.#written.get(uid);
    if (own !== undefined && !isLater(own.metadata.resourceVersion, task.metadata.resourceVersion)) this.#written.delete(uid);
  }

  #latest(uid: string): DeepReadonly<Task> | undefined {
    const { cache, namespace } = this.#options;
    const cached = cache.list(Task, { namespace, index: ["uid", uid] })[0];
    const own = this.#written.get(uid);
    return own !== undefined && isLater(own.metadata.resourceVersion, cached?.metadata.resourceVersion) ? own : cached;
  }

  async #refetch(task: DeepReadonly<Task>): Promise<DeepReadonly<Task> | undefined> {
    const { client, namespace } = this.#options;
    try {
      const fresh = await client.get(Task, { namespace, name: task.metadata.name ?? "" });
      return fresh.metadata.uid === task.metadata.uid ? fresh : undefined;
    } catch (error) {
      if (isNotFound(error)) return undefined;
      throw error;
    }
  }

  async #write(task: DeepReadonly<Task>, status: NonNullable<Task["status"]>): Promise<DeepReadonly<Task>> {
    const { client, namespace, fieldManager } = this.#options;
    const { name = "", resourceVersion } = task.metadata;
    return await client.applyStatus(Task, { metadata: { name, namespace, resourceVersion }, status }, { fieldManager });
  }
}
