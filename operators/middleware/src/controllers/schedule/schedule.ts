import { Pod } from "@keelson/api-machinery/kinds";
import {
  type Cache,
  type ControllerDefinition,
  defineController,
  type ReconcileContext,
  type Request,
  type Result,
  watchOf,
} from "@keelson/controller";
import { Backup } from "../../api/backup.ts";
import { BackupSchedule, type BackupScheduleStatus } from "../../api/backup-schedule.ts";
import { Group } from "../../api/group.ts";
import { labels } from "../../api/names.ts";
import { Restore } from "../../api/restore.ts";
import { readAgentAccess } from "../agent-access.ts";
import { performEffects } from "../perform-effects.ts";
import type { MiddlewareServices } from "../services.ts";
import { hasEnded } from "../restore/restore-observation.ts";
import { changedLogCondition } from "./log-decision.ts";
import { observeLog } from "./observe-log.ts";
import { decideSchedule } from "./schedule-decision.ts";

const fieldManager = "middleware-backup-schedule-controller";

/** Creates the BackupSchedule controller, which creates Backups at scheduled times and deletes those beyond the retention. */
export function createScheduleController(services: MiddlewareServices): ControllerDefinition {
  return defineController({
    name: "middleware-backup-schedule",
    for: BackupSchedule,
    owns: [Pod],
    watches: [
      // The archive of the log follows the primary, and another BackupSchedule may take it over.
      watchOf(Group, ({ metadata }, { cache }) => schedulesOf(cache, metadata.namespace, metadata.labels?.[labels.app])),
      watchOf(Backup, ({ metadata }) => {
        const name = metadata.labels?.[labels.schedule];
        return name === undefined ? [] : [{ namespace: metadata.namespace, name }];
      }),
      // Retention waits for the Restores that use a Backup.
      watchOf(Restore, ({ metadata: { namespace }, spec }, { cache }) => {
        const name = cache.get(Backup, { namespace, name: spec.backup.name })?.metadata.labels?.[labels.schedule];
        return name === undefined ? [] : [{ namespace, name }];
      }),
    ],
    reconcile: (request, context) => reconcile(request, context, services),
  });
}

function schedulesOf(cache: Cache, namespace: string | undefined, app: string | undefined): readonly Request[] {
  return cache
    .list(BackupSchedule, { namespace })
    .filter(({ spec }) => spec.app.name === app && spec.log === true)
    .map(({ metadata }) => ({ namespace: metadata.namespace, name: metadata.name ?? "" }));
}

async function reconcile(
  request: Request,
  context: ReconcileContext,
  services: MiddlewareServices,
): Promise<Result | undefined> {
  const { cache, client, clock, signal, events } = context;
  const { agents, generateSecret, completePod } = services;
  const schedule = cache.get(BackupSchedule, request);
  if (schedule === undefined) return undefined;
  const { namespace } = request;
  const backups = cache.list(Backup, { namespace });
  const restores = cache.list(Restore, { namespace }).filter(({ status }) => !hasEnded(status ?? {}));
  const restored = new Set(restores.map(({ spec }) => spec.backup.name));
  const { effects, requeueAfterMs } = decideSchedule({
    ...{ schedule, backups, restored },
    log: await observeLog(schedule, context, services),
    now: clock.now(),
  });
  await performEffects(effects, {
    ...{ client, fieldManager, signal, agents, generateSecret, completePod },
    agentAccess: () => readAgentAccess(client, namespace, schedule.spec.app.name, signal),
  });
  const written = effects.find((effect) => effect.kind === "status");
  const { message } = (written?.status ?? {}) as BackupScheduleStatus;
  if (message !== undefined && message !== schedule.status?.message) {
    const isStart = message.startsWith("started");
    events.event(schedule, {
      type: isStart ? "Normal" : "Warning",
      reason: isStart ? "Scheduled" : "NotScheduled",
      note: message,
    });
  }
  const condition = written === undefined ? undefined : changedLogCondition(schedule.status, written.status);
  if (condition !== undefined) {
    const { status, reason, message: note } = condition;
    events.event(schedule, { type: status === "True" ? "Normal" : "Warning", reason: `Log${reason}`, note });
  }
  for (const effect of effects)
    if (effect.kind === "delete" && effect.type === Backup)
      events.event(schedule, { type: "Normal", reason: "BackupDeleted", note: `deleting Backup ${effect.key.name}` });
  return requeueAfterMs === undefined ? undefined : { requeueAfterMs };
}
