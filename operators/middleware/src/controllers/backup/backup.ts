import { type DeepReadonly, isNamespaceTerminating } from "@keelson/api-machinery";
import { PersistentVolumeClaim, Pod, type PodObject } from "@keelson/api-machinery/kinds";
import {
  type ControllerDefinition,
  defineController,
  type ReconcileContext,
  readOf,
  removeFinalizer,
  type Request,
  type Result,
  watchOf,
} from "@keelson/controller";
import { App } from "../../api/app.ts";
import { Backup, type BackupStatus } from "../../api/backup.ts";
import { BackupSchedule } from "../../api/backup-schedule.ts";
import { backupFinalizer } from "../../api/backup-parts.ts";
import { Group } from "../../api/group.ts";
import { labels } from "../../api/names.ts";
import { Restore } from "../../api/restore.ts";
import { AgentCallError } from "../agent-call-error.ts";
import { readAgentAccess } from "../agent-access.ts";
import { performEffects } from "../perform-effects.ts";
import type { MiddlewareServices } from "../services.ts";
import { type BackupObservation, decideBackup, isFinished, verificationName } from "./backup-decision.ts";
import type { SourceCandidate } from "./choose-source.ts";
import { findDataGroup } from "./find-group.ts";
import { findLogFolder } from "../schedule/find-log-folder.ts";
import { transferLabel } from "./transfer-pod.ts";

const fieldManager = "middleware-backup-controller";

/** Creates the Backup controller, which stores snapshots of Apps by Pods. */
export function createBackupController(services: MiddlewareServices): ControllerDefinition {
  return defineController({
    name: "middleware-backup",
    for: Backup,
    owns: [Pod, Restore],
    watches: [
      // A Backup waits for its App, and for a replica in sync.
      watchOf(Group, ({ metadata }, { cache }) =>
        cache
          .list(Backup, { namespace: metadata.namespace })
          .filter(({ spec, status }) => spec.app.name === metadata.labels?.[labels.app] && !isFinished(status ?? {}))
          .map((backup) => ({ namespace: backup.metadata.namespace, name: backup.metadata.name ?? "" })),
      ),
    ],
    reads: [readOf(App), readOf(Group), readOf(PersistentVolumeClaim), readOf(BackupSchedule)],
    maxConcurrentReconciles: 5,
    reconcile: (request, context) => reconcile(request, context, services),
  });
}

async function reconcile(
  request: Request,
  context: ReconcileContext,
  services: MiddlewareServices,
): Promise<Result | undefined> {
  const { cache, client, signal } = context;
  const backup = cache.get(Backup, request);
  if (backup === undefined) return undefined;
  const { effects, requeueAfterMs } = decideBackup(await observe(backup, context, services));
  try {
    await performEffects(effects, {
      ...{ client, fieldManager, signal },
      agents: services.agents,
      generateSecret: services.generateSecret,
      completePod: services.completePod,
      agentAccess: () => Promise.reject(new AgentCallError("NoToken", "the Backup controller changes no programs")),
    });
  } catch (error) {
    // A namespace that is being deleted accepts no Pods.
    if (backup.metadata.deletionTimestamp === undefined || !isNamespaceTerminating(error)) throw error;
    const note = `the stored data is kept: ${error.message}`;
    context.events.event(backup, { type: "Warning", reason: "DataKept", note });
    await removeFinalizer(client, Backup, backup, backupFinalizer);
    return undefined;
  }
  const written = effects.find((effect) => effect.kind === "status");
  if (written !== undefined) recordEvents(backup, written.status as BackupStatus, context);
  return requeueAfterMs === undefined ? undefined : { requeueAfterMs };
}

async function observe(
  backup: DeepReadonly<Backup>,
  { cache, client, clock, signal }: ReconcileContext,
  { agents, transferCommand }: MiddlewareServices,
): Promise<BackupObservation> {
  const { namespace, name = "" } = backup.metadata;
  const { app: target, storage } = backup.spec;
  const groups = cache.list(Group, { namespace, labelSelector: `${labels.app}=${target.name}` });
  const group = findDataGroup(groups, target);
  const isIdle =
    backup.status?.transfer === undefined &&
    !isFinished(backup.status ?? {}) &&
    backup.metadata.deletionTimestamp === undefined;
  const groupName = "problem" in group ? undefined : group.group.metadata.name;
  const pods = groupName === undefined ? [] : cache.list(Pod, { namespace, labelSelector: `${labels.group}=${groupName}` });
  const candidates: SourceCandidate[] = [];
  if (isIdle && pods.length > 0) {
    const access = await readAgentAccess(client, namespace, target.name, signal);
    candidates.push(
      ...(await Promise.all(
        pods.flatMap((pod) => {
          const ip = runningAddress(pod);
          const { name: podName } = pod.metadata;
          return ip === undefined ? [] : [agents.role(ip, access, signal).then((role) => ({ name: podName, ip, role }))];
        }),
      )),
    );
  }
  const { volume } = storage;
  const logFolder = findLogFolder(backup, cache.list(BackupSchedule, { namespace }));
  return {
    backup,
    ...(logFolder === undefined ? {} : { logFolder }),
    app: cache.get(App, { namespace, name: target.name }),
    group,
    candidates,
    image: pods[0]?.spec.containers[0]?.image,
    pods: cache.list(Pod, { namespace, labelSelector: `${labels.transfer}=${transferLabel(backup)}` }),
    claim: volume === undefined ? undefined : cache.get(PersistentVolumeClaim, { namespace, name: volume.claimName }),
    verification: cache.get(Restore, { namespace, name: verificationName(name) }),
    command: transferCommand,
    now: clock.now(),
  };
}

/** Address of a Pod whose agent may respond. */
export function runningAddress({ metadata, status }: DeepReadonly<PodObject>): string | undefined {
  return status?.phase === "Running" && metadata.deletionTimestamp === undefined ? status.podIP : undefined;
}

function recordEvents(backup: DeepReadonly<Backup>, status: BackupStatus, { events }: ReconcileContext): void {
  const before = backup.status;
  const { transfer, phase, message = "", source } = status;
  if (transfer !== undefined && transfer.pod !== before?.transfer?.pod && transfer.step === "backup")
    events.event(backup, {
      type: source?.role === "primary" ? "Warning" : "Normal",
      reason: "BackupStarted",
      note: `attempt ${status.attempt}: storing the data of ${source?.pod} (${source?.reason})`,
    });
  if (before?.transfer !== undefined && transfer === undefined && phase === "Pending")
    events.event(backup, { type: "Warning", reason: "AttemptFailed", note: message });
  if (phase === before?.phase) return;
  if (phase === "Completed") events.event(backup, { type: "Normal", reason: "BackupCompleted", note: message });
  if (phase === "Failed") events.event(backup, { type: "Warning", reason: "BackupFailed", note: message });
}
