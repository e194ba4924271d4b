import {
  type ControllerDefinition,
  defineController,
  type ReconcileContext,
  type Request,
  type Result,
  watchOf,
} from "@keelson/controller";
import { Backup } from "../../api/backup.ts";
import { BackupSchedule, type BackupScheduleStatus } from "../../api/backup-schedule.ts";
import { labels } from "../../api/names.ts";
import { Restore } from "../../api/restore.ts";
import { AgentCallError } from "../agent-call-error.ts";
import { performEffects } from "../perform-effects.ts";
import type { MiddlewareServices } from "../services.ts";
import { hasEnded } from "../restore/restore-observation.ts";
import { decideSchedule } from "./schedule-decision.ts";

const fieldManager = "middleware-backup-schedule-controller";

/** Creates the BackupSchedule controller, which creates Backups at scheduled times and deletes those beyond the retention. */
export function createScheduleController(services: MiddlewareServices): ControllerDefinition {
  return defineController({
    name: "middleware-backup-schedule",
    for: BackupSchedule,
    watches: [
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

async function reconcile(
  request: Request,
  { cache, client, clock, signal, events }: ReconcileContext,
  { agents, generateSecret }: MiddlewareServices,
): Promise<Result | undefined> {
  const schedule = cache.get(BackupSchedule, request);
  if (schedule === undefined) return undefined;
  const { namespace } = request;
  const backups = cache.list(Backup, { namespace });
  const restores = cache.list(Restore, { namespace }).filter(({ status }) => !hasEnded(status ?? {}));
  const restored = new Set(restores.map(({ spec }) => spec.backup.name));
  const { effects, requeueAfterMs } = decideSchedule({ schedule, backups, restored, now: clock.now() });
  await performEffects(effects, {
    ...{ client, fieldManager, signal, agents, generateSecret },
    agentToken: () => Promise.reject(new AgentCallError("NoToken", "the BackupSchedule controller calls no agents")),
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
  for (const effect of effects)
    if (effect.kind === "delete")
      events.event(schedule, { type: "Normal", reason: "BackupDeleted", note: `deleting Backup ${effect.key.name}` });
  return requeueAfterMs === undefined ? undefined : { requeueAfterMs };
}
