import {
  type Condition,
  controllerReference,
  type DeepReadonly,
  draft,
  findCondition,
  hasFinalizer,
  jsonEquals,
  setCondition,
} from "@keelson/api-machinery";
import { type PersistentVolumeClaimObject, Pod, type PodObject } from "@keelson/api-machinery/kinds";
import { quantityToBytes } from "@keelson/api-machinery/quantity";
import { formatTime } from "@keelson/api-machinery/time";
import type { App } from "../../api/app.ts";
import { Backup, type BackupStatus } from "../../api/backup.ts";
import { backupFinalizer } from "../../api/backup-parts.ts";
import { Restore } from "../../api/restore.ts";
import type { BackupTransfer } from "../../backup/transfer.ts";
import type { Decision, Effect } from "../effect.ts";
import { chooseSource, type SourceCandidate } from "./choose-source.ts";
import type { FoundGroup } from "./find-group.ts";
import { claimEffects, transferPod } from "./transfer-pod.ts";
import { runStep, type StepOutcome } from "./transfer-step.ts";

/** gRPC port of agents. */
const agentPort = 50_052;
const defaultMaxLagBytes = 1 << 20;

/** Inputs of a decision about a Backup. */
export interface BackupObservation {
  readonly backup: DeepReadonly<Backup>;
  readonly app: DeepReadonly<App> | undefined;
  /** The group to back up, or why there is none. */
  readonly group: FoundGroup | { readonly problem: string };
  /** Directory to which a BackupSchedule archives the log of that group, in the same storage and with the same encryption. */
  readonly logFolder?: string;
  /** Pods of that group. Empty while a transfer runs. */
  readonly candidates: readonly SourceCandidate[];
  /** Image of the Pods of the group. */
  readonly image: string | undefined;
  /** All Pods that transfer data of this Backup. */
  readonly pods: readonly DeepReadonly<PodObject>[];
  readonly claim: DeepReadonly<PersistentVolumeClaimObject> | undefined;
  /** The Restore that verifies this Backup. */
  readonly verification: DeepReadonly<Restore> | undefined;
  /** Command line of the Pods that transfer data. */
  readonly command: readonly string[];
  readonly now: number;
}

/** Address of an agent as a URL. */
export const agentUrl = (ip: string): string => `http://${ip.includes(":") ? `[${ip}]` : ip}:${agentPort}`;

/** Name of the Restore that verifies a Backup. */
export const verificationName = (backup: string): string => `${backup}-verify`;

/** Whether a Backup has ended. */
export const isFinished = ({ phase }: DeepReadonly<BackupStatus>): boolean => phase === "Completed" || phase === "Failed";

/**
 * Decides about a Backup. Pure. A changed status is written first and alone; a controller that crashes repeats the rest.
 *
 * ```text
 *   Pending --> Running --> Completed          a Pod stores the data; each attempt has its own directory
 *      ^          | failed attempt, with backoff
 *      +----------+-------> Failed
 * ```
 *
 * **Guarantees**: a Backup is Completed only if its Pod has reported sizes and checksums after all data was stored durably.
 */
export function decideBackup(observed: BackupObservation): Decision {
  const { backup, now } = observed;
  const status = draft(backup.status ?? {}) as BackupStatus;
  status.observedGeneration = backup.metadata.generation ?? 0;
  if (backup.metadata.deletionTimestamp !== undefined) return decideDeletion(observed, status);
  if (isFinished(status)) return afterwards(observed, status);
  if (!hasFinalizer(backup, backupFinalizer))
    return { effects: [{ kind: "add-finalizer", type: Backup, object: backup, finalizer: backupFinalizer }] };
  status.startedAt ??= formatTime(now);
  status.folder ??= folderOf(backup);
  const outcome = runStep("backup", status, {
    ...stepSettings(observed),
    begin: () => beginBackup(observed, status),
  });
  const isFailed = outcome.kind === "failed";
  if (outcome.kind === "done") {
    const { artifact } = outcome.result;
    if (artifact === undefined) return complete(status, observed, "the Pod reported no data");
    if (backup.spec.encryption !== undefined && artifact.keyId === undefined)
      return complete(status, observed, "the Pod stored the data without encryption");
    status.artifact = draft(artifact) as NonNullable<BackupStatus["artifact"]>;
    return complete(status, observed, undefined);
  }
  if (isFailed) return complete(status, observed, outcome.message);
  status.phase = status.transfer === undefined ? "Pending" : "Running";
  if (outcome.message !== "") status.message = outcome.message;
  return decide(observed, status, outcome, () => backupWork(observed, status));
}

function folderOf({ metadata, spec }: DeepReadonly<Backup>): string {
  return `${metadata.namespace}/${spec.app.name}/${metadata.name}-${(metadata.uid ?? "").slice(0, 8)}`;
}

function stepSettings({ backup, pods, now }: BackupObservation) {
  const { timeout = "1h", maxRetries = 3 } = backup.spec;
  const { name = "" } = backup.metadata;
  const current = backup.status?.transfer?.pod;
  return { name, timeout, maxRetries, now, pod: pods.find(({ metadata }) => metadata.name === current) };
}

/** Chooses the source of an attempt, and records what a Restore needs to create the App. */
function beginBackup(observed: BackupObservation, status: BackupStatus) {
  const { backup, app, group, candidates, image } = observed;
  if (app === undefined) return { problem: `App ${backup.spec.app.name} not found` };
  if ("problem" in group) return group;
  const lag = backup.spec.maxReplicationLag;
  const maxLagBytes = lag === undefined ? defaultMaxLagBytes : quantityToBytes(lag);
  const source = chooseSource(candidates, group.group.status?.primary?.pod, maxLagBytes);
  if ("problem" in source) return source;
  if (image === undefined) return { problem: `the Pod ${source.pod} no longer exists` };
  const { ip, ...rest } = source;
  status.source = rest;
  status.component = group.component;
  status.group = group.name;
  status.image = image;
  if (observed.logFolder === undefined) delete status.logFolder;
  else status.logFolder = observed.logFolder;
  status.appSpec = draft(app.spec) as unknown as NonNullable<BackupStatus["appSpec"]>;
  return { agent: agentUrl(ip), path: `${status.folder}/${(status.transfers ?? 0) + 1}` };
}

function backupWork({ backup }: BackupObservation, status: BackupStatus): BackupTransfer {
  const { transfer, component, group, appSpec } = status;
  const description = {
    apiVersion: backup.apiVersion,
    namespace: backup.metadata.namespace,
    backup: backup.metadata.name,
    app: { name: backup.spec.app.name, component, group, spec: appSpec },
    startedAt: status.startedAt,
  };
  const mustEncrypt = backup.spec.encryption !== undefined;
  return { kind: "backup", agent: transfer?.agent ?? "", path: transfer?.path ?? "", mustEncrypt, description };
}

/** Writes a changed status; otherwise performs what the outcome of a step needs. */
function decide(
  observed: BackupObservation,
  status: BackupStatus,
  outcome: StepOutcome,
  work: () => Parameters<typeof transferPod>[0]["work"],
): Decision {
  const { backup, now, claim, command, pods } = observed;
  const requeue =
    outcome.kind === "waiting" && outcome.dueMs !== undefined ? { requeueAfterMs: Math.max(outcome.dueMs - now, 10) } : {};
  const write = changed(backup, status);
  if (write !== undefined) return { effects: [write], ...requeue };
  if (outcome.kind === "create") {
    const { transfer } = outcome;
    const pod = transferPod({
      owner: backup,
      settings: backup.spec,
      app: transfer.step === "delete" ? undefined : backup.spec.app.name,
      hasTls: !("problem" in observed.group) && observed.group.group.spec.tls !== undefined,
      image: status.image ?? "",
      work: work(),
      ...{ transfer, command },
    });
    const claims = transfer.step === "delete" ? [] : claimEffects(backup.spec.storage, backup.metadata.namespace, claim);
    return { effects: [...claims, { kind: "apply", type: Pod, object: pod }] };
  }
  const current = pods.find(({ metadata }) => metadata.name === status.transfer?.pod);
  if (outcome.kind === "delete" && current !== undefined) return { effects: deletePods([current], undefined) };
  return { effects: deletePods(pods, status.transfer?.pod), ...requeue };
}

function changed(backup: DeepReadonly<Backup>, status: BackupStatus): Effect | undefined {
  return jsonEquals(status, backup.status ?? {}) ? undefined : { kind: "status", type: Backup, object: backup, status };
}

/** Deletes Pods that are no longer needed, except the current one. */
export function deletePods(pods: readonly DeepReadonly<PodObject>[], current: string | undefined): Effect[] {
  return pods
    .filter(({ metadata }) => metadata.name !== current && metadata.deletionTimestamp === undefined)
    .map(({ metadata: { name = "", namespace, uid = "" } }) => ({ kind: "delete", type: Pod, key: { namespace, name }, uid }));
}

function complete(status: BackupStatus, { backup, now }: BackupObservation, error: string | undefined): Decision {
  status.phase = error === undefined ? "Completed" : "Failed";
  status.completedAt = formatTime(now);
  delete status.retryAt;
  const { artifact, source } = status;
  status.message = error ?? `stored ${artifact?.keys} ${artifact?.unit ?? "keys"} from ${source?.pod} (${source?.reason})`;
  const condition = {
    type: "Complete",
    status: error === undefined,
    reason: status.phase,
    message: status.message,
    observedGeneration: backup.metadata.generation ?? 0,
  };
  status.conditions = draft(setCondition(status.conditions, condition, now)) as Condition[];
  return { effects: [{ kind: "status", type: Backup, object: backup, status }] };
}

/** Deletes the Pods of a finished Backup, and verifies it by a Restore. */
function afterwards(observed: BackupObservation, status: BackupStatus): Decision {
  const { backup, verification, now, pods } = observed;
  const verdict = findCondition(status.conditions, "Verified")?.status ?? "Unknown";
  const isVerified = verdict !== "Unknown";
  const phase = verification?.status?.phase;
  if (backup.spec.verify && status.phase === "Completed" && !isVerified) {
    const hasEnded = phase === "Completed" || phase === "Failed";
    const condition = {
      type: "Verified",
      status: hasEnded ? phase === "Completed" : ("Unknown" as const),
      reason: hasEnded ? `Restore${phase}` : "Restoring",
      message: hasEnded
        ? (verification?.status?.message ?? "")
        : `waiting for the Restore ${verificationName(backup.metadata.name ?? "")}`,
    };
    status.conditions = draft(setCondition(status.conditions, condition, now)) as Condition[];
  }
  const write = changed(backup, status);
  if (write !== undefined) return { effects: [write] };
  const cleanup = deletePods(pods, undefined);
  if (!backup.spec.verify || status.phase !== "Completed" || isVerified || verification !== undefined)
    return { effects: cleanup };
  return { effects: [...cleanup, { kind: "create", type: Restore, object: verificationOf(backup) }] };
}

function verificationOf(backup: DeepReadonly<Backup>): DeepReadonly<Restore> {
  const { name = "", namespace = "" } = backup.metadata;
  return {
    apiVersion: "middleware.io/v1alpha1",
    kind: "Restore",
    metadata: { name: verificationName(name), namespace, ownerReferences: [controllerReference(backup)] },
    spec: { backup: { name }, verify: true },
  };
}

/** Deletes the stored data, if the policy says so, and then the finalizer. */
function decideDeletion(observed: BackupObservation, status: BackupStatus): Decision {
  const { backup, claim, pods } = observed;
  if (!hasFinalizer(backup, backupFinalizer)) return { effects: [] };
  const done: Decision = {
    effects: [{ kind: "remove-finalizer", type: Backup, object: backup, finalizer: backupFinalizer }],
  };
  const isRunning = status.transfer !== undefined && status.transfer.step !== "delete";
  if (isRunning) {
    // It must no longer write when the data is deleted.
    if (pods.length > 0) return { effects: deletePods(pods, undefined) };
    delete status.transfer;
    delete status.attempt;
  }
  const hasData = (status.transfers ?? 0) > 0 && status.folder !== undefined && status.image !== undefined;
  const isVolumeGone = backup.spec.storage.volume !== undefined && claim === undefined;
  if (backup.spec.deletionPolicy !== "Delete" || !hasData || isVolumeGone) return done;
  status.phase = "Deleting";
  const outcome = runStep("delete", status, {
    ...stepSettings({ ...observed, backup: { ...backup, status } as DeepReadonly<Backup> }),
    // Deletion is retried until it succeeds, or until the policy is changed.
    maxRetries: Number.POSITIVE_INFINITY,
    begin: () => ({}),
  });
  if (outcome.kind === "done" || outcome.kind === "failed") {
    if (outcome.kind === "done") return done;
    status.message = outcome.message;
  } else if (outcome.message !== "") status.message = outcome.message;
  return decide(observed, status, outcome, () => ({ kind: "delete", path: status.folder ?? "" }));
}
