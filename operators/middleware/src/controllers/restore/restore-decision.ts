import { type Condition, type DeepReadonly, draft, hasFinalizer, jsonEquals, setCondition } from "@keelson/api-machinery";
import { PersistentVolumeClaim, type PersistentVolumeClaimObject, Pod, type PodObject } from "@keelson/api-machinery/kinds";
import { formatTime } from "@keelson/api-machinery/time";
import { App } from "../../api/app.ts";
import type { Backup } from "../../api/backup.ts";
import { backupFinalizer, type TransferStatus } from "../../api/backup-parts.ts";
import type { Group } from "../../api/group.ts";
import { annotations } from "../../api/names.ts";
import { Restore, type RestoreStatus } from "../../api/restore.ts";
import type { Artifact } from "../../backup/artifact.ts";
import type { TransferWork } from "../../backup/transfer.ts";
import { agentUrl, deletePods } from "../backup/backup-decision.ts";
import { transferPod } from "../backup/transfer-pod.ts";
import { runStep, type StepOutcome } from "../backup/transfer-step.ts";
import type { Decision, Effect } from "../effect.ts";

/** Inputs of a decision about a Restore. */
export interface RestoreObservation {
  readonly restore: DeepReadonly<Restore>;
  readonly backup: DeepReadonly<Backup> | undefined;
  /** The App to restore into. */
  readonly app: DeepReadonly<App> | undefined;
  /** The group of that App that the backup belongs to. */
  readonly group: DeepReadonly<Group> | undefined;
  /** Address of the primary of that group. */
  readonly primary: string | undefined;
  /** All Pods that transfer data for this Restore. */
  readonly pods: readonly DeepReadonly<PodObject>[];
  /** Claims of a scratch App. */
  readonly claims: readonly DeepReadonly<PersistentVolumeClaimObject>[];
  /** Command line of the Pods that transfer data. */
  readonly command: readonly string[];
  readonly now: number;
}

/** Name of the App that a Restore changes or creates. */
export const targetApp = ({ metadata, spec }: DeepReadonly<Restore>): string => spec.app?.name ?? `${metadata.name}-scratch`;

/** Whether a Restore has ended. */
export const hasEnded = ({ phase }: DeepReadonly<RestoreStatus>): boolean => phase === "Completed" || phase === "Failed";

/**
 * Decides about a Restore. Pure. A changed status is written first and alone; a controller that crashes repeats the rest.
 *
 * ```text
 *   Pending --> Checking --> [Creating] --> Loading --> Syncing --> Completed
 *      |            |            |             |
 *      +------------+------------+-------------+-----> Failed
 * ```
 *
 * **Guarantees**: nothing is created, stopped or changed before all of the stored data was read and verified. An existing App is changed
 * only if `spec.overwrite` names it.
 */
export function decideRestore(observed: RestoreObservation): Decision {
  const { restore, now } = observed;
  const { metadata, spec } = restore;
  const status = draft(restore.status ?? {}) as RestoreStatus;
  status.observedGeneration = metadata.generation ?? 0;
  if (metadata.deletionTimestamp !== undefined || hasEnded(status)) return afterwards(observed, status);
  if (spec.verify && !hasFinalizer(restore, backupFinalizer))
    return { effects: [{ kind: "add-finalizer", type: Restore, object: restore, finalizer: backupFinalizer }] };
  status.app = targetApp(restore);
  status.startedAt ??= formatTime(now);
  status.phase ??= "Pending";
  const refusal = refusalOf(observed, status);
  if (refusal !== undefined) return end(observed, status, refusal);
  switch (status.phase) {
    case "Pending":
      return pending(observed, status);
    case "Checking":
      return transferring(observed, status, "check");
    case "Creating":
      return creating(observed, status);
    case "Loading":
      return transferring(observed, status, "load");
    default:
      return syncing(observed, status);
  }
}

/** Why the Restore cannot continue. */
function refusalOf({ restore, backup, app }: RestoreObservation, status: RestoreStatus): string | undefined {
  const name = targetApp(restore);
  if (backup?.status?.phase === "Failed") return `Backup ${backup.metadata.name} has failed`;
  if (backup !== undefined && backup.metadata.deletionTimestamp !== undefined)
    return `Backup ${backup.metadata.name} is being deleted`;
  if (app === undefined)
    return status.phase === "Loading" || status.phase === "Syncing" ? `App ${name} was deleted` : undefined;
  const isOwn = app.metadata.annotations?.[annotations.restoredBy] === restore.metadata.uid;
  if (isOwn || restore.spec.overwrite === name) return undefined;
  return restore.spec.verify
    ? `App ${name} exists and does not belong to this Restore`
    : `App ${name} exists: set spec.overwrite to ${JSON.stringify(name)} to replace all of its data`;
}

function pending(observed: RestoreObservation, status: RestoreStatus): Decision {
  const { restore, backup } = observed;
  const { name } = restore.spec.backup;
  if (backup?.status?.phase === "Completed" && backup.status.artifact !== undefined) {
    status.phase = "Checking";
    status.message = "verifying the data";
  } else status.message = backup === undefined ? `Backup ${name} not found` : `waiting for the Backup ${name} to complete`;
  return settle(observed, status, []);
}

/** Runs the Pod that verifies, or that loads. */
function transferring(observed: RestoreObservation, status: RestoreStatus, step: "check" | "load"): Decision {
  const { restore, backup, app, primary, pods, now } = observed;
  const { timeout = "1h", maxRetries = 3 } = restore.spec;
  const outcome = runStep(step, status, {
    name: restore.metadata.name ?? "",
    ...{ timeout, maxRetries, now },
    pod: pods.find(({ metadata }) => metadata.name === restore.status?.transfer?.pod),
    begin: () => {
      if (backup === undefined) return { problem: `Backup ${restore.spec.backup.name} not found` };
      if (app === undefined) return {};
      if (primary === undefined) return { problem: `the App ${app.metadata.name} has no primary that responds` };
      return { agent: agentUrl(primary) };
    },
  });
  if (outcome.kind === "failed") return end(observed, status, outcome.message);
  if (outcome.kind === "done") {
    if (step === "load") {
      status.keys = outcome.result.keys ?? 0;
      status.phase = "Syncing";
      status.message = "waiting for the replicas";
    } else {
      // Recorded before the App is created, so that its name is reserved.
      const { pod: name, uid = "" } = outcome.transfer;
      if (restore.spec.verify) status.scratchOwner = { name, uid };
      status.phase = app === undefined ? "Creating" : "Loading";
      status.message = app === undefined ? `creating the App ${status.app}` : "loading the data";
    }
    return settle(observed, status, []);
  }
  if (outcome.message !== "") status.message = outcome.message;
  return settle(observed, status, effectsOf(observed, status, outcome), outcome);
}

function effectsOf(observed: RestoreObservation, status: RestoreStatus, outcome: StepOutcome): Effect[] {
  const { restore, backup, app, command, pods } = observed;
  const current = status.transfer?.pod;
  if (outcome.kind === "create" && backup !== undefined) {
    const { transfer } = outcome;
    const pod = transferPod({
      owner: restore,
      settings: backup.spec,
      app: transfer.agent === undefined ? undefined : app?.metadata.name,
      image: backup.status?.image ?? "",
      work: workOf(transfer, backup),
      ...{ transfer, command },
    });
    return [{ kind: "apply", type: Pod, object: pod }];
  }
  if (outcome.kind === "delete")
    return deletePods(
      pods.filter(({ metadata }) => metadata.name === current),
      undefined,
    );
  return deletePods(
    pods.filter(({ metadata }) => metadata.name !== status.scratchOwner?.name),
    current,
  );
}

function workOf({ step, agent }: TransferStatus, { status }: DeepReadonly<Backup>): TransferWork {
  const artifact = status?.artifact as Artifact;
  if (step === "load") return { kind: "load", agent: agent ?? "", artifact };
  return { kind: "check", artifact, ...(agent === undefined ? {} : { agent }) };
}

/** Creates the App with the spec of the backup, and waits until it runs. */
function creating(observed: RestoreObservation, status: RestoreStatus): Decision {
  const { app, primary } = observed;
  status.createsApp = true;
  if (app !== undefined && app.status?.phase === "Running" && primary !== undefined) {
    status.phase = "Loading";
    status.message = "loading the data";
  } else status.message = `waiting for the App ${status.app}: ${app?.status?.message ?? "creating"}`;
  const { backup } = observed;
  if (app !== undefined || backup === undefined) return settle(observed, status, []);
  return settle(observed, status, [{ kind: "create", type: App, object: appOf(observed.restore, backup, status) }]);
}

/** The App of a Restore. It has no owner unless it is a scratch App: it outlives the Restore. */
function appOf(restore: DeepReadonly<Restore>, backup: DeepReadonly<Backup>, status: RestoreStatus): DeepReadonly<App> {
  const { namespace = "", uid = "" } = restore.metadata;
  const spec = draft(backup.status?.appSpec ?? {}) as unknown as App["spec"];
  delete spec.stopped;
  if (restore.spec.verify) {
    // A scratch App is not backed up and has one Pod: the size of the group says nothing about the data.
    delete spec.backup;
    const { component = "", group = "" } = backup.status ?? {};
    const components = spec.components?.filter(({ name }) => name !== component) ?? [];
    const own = spec.components?.find(({ name }) => name === component);
    const groups = own?.groups?.filter(({ name }) => name !== group) ?? [];
    const part = own?.groups?.find(({ name }) => name === group);
    spec.components = [...components, { ...own, name: component, groups: [...groups, { ...part, name: group, replicas: 1 }] }];
  }
  return {
    apiVersion: "middleware.io/v1alpha1",
    kind: "App",
    metadata: {
      name: targetApp(restore),
      namespace,
      annotations: { [annotations.restoredBy]: uid },
      ...(status.scratchOwner === undefined
        ? {}
        : { ownerReferences: [{ apiVersion: "v1", kind: "Pod", ...status.scratchOwner }] }),
    },
    spec,
  };
}

/** Waits until all Pods have the data, and compares it. */
function syncing(observed: RestoreObservation, status: RestoreStatus): Decision {
  const { backup, group, restore } = observed;
  const { keys = 0 } = status;
  const { artifact } = backup?.status ?? {};
  // Keys with a time to live may have expired since the backup.
  if (artifact !== undefined && (keys > artifact.keys || keys < artifact.keys - artifact.expiringKeys))
    return end(observed, status, `the App has ${keys} keys after the load; the backup has ${artifact.keys}`);
  const { readyReplicas = 0, replicas = 1 } = group?.status ?? {};
  status.message = `waiting for the replicas: ${readyReplicas} of ${replicas} Pods are ready`;
  if (readyReplicas < replicas) return settle(observed, status, []);
  const what = restore.spec.verify ? "verified" : "restored";
  return end(observed, status, undefined, `${what} ${keys} keys of Backup ${restore.spec.backup.name}`);
}

function end(observed: RestoreObservation, status: RestoreStatus, error: string | undefined, message = ""): Decision {
  const { restore, now } = observed;
  status.phase = error === undefined ? "Completed" : "Failed";
  status.completedAt = formatTime(now);
  status.message = error ?? message;
  delete status.retryAt;
  delete status.transfer;
  const condition = {
    type: "Complete",
    status: error === undefined,
    reason: status.phase,
    message: status.message,
    observedGeneration: restore.metadata.generation ?? 0,
  };
  status.conditions = draft(setCondition(status.conditions, condition, now)) as Condition[];
  return { effects: [{ kind: "status", type: Restore, object: restore, status }] };
}

/** Deletes the Pods of a Restore that has ended, and its scratch App with the volumes. */
function afterwards(observed: RestoreObservation, status: RestoreStatus): Decision {
  const { restore, app, claims, pods } = observed;
  const effects = deletePods(pods, undefined);
  if (!hasFinalizer(restore, backupFinalizer)) return { effects };
  const isOwn = app?.metadata.annotations?.[annotations.restoredBy] === restore.metadata.uid;
  // The garbage collector deletes it with its owner.
  if (app !== undefined && isOwn && status.createsApp) return { effects };
  const left = claims.filter(({ metadata }) => metadata.deletionTimestamp === undefined);
  for (const { metadata } of app === undefined && status.createsApp ? left : [])
    effects.push({
      kind: "delete",
      type: PersistentVolumeClaim,
      key: { namespace: metadata.namespace, name: metadata.name ?? "" },
      uid: metadata.uid ?? "",
    });
  if (left.length > 0 && status.createsApp) return { effects };
  return {
    effects: [...effects, { kind: "remove-finalizer", type: Restore, object: restore, finalizer: backupFinalizer }],
  };
}

function settle(
  { restore, now }: RestoreObservation,
  status: RestoreStatus,
  effects: readonly Effect[],
  outcome?: StepOutcome,
): Decision {
  const requeue =
    outcome?.kind === "waiting" && outcome.dueMs !== undefined ? { requeueAfterMs: Math.max(outcome.dueMs - now, 10) } : {};
  if (!jsonEquals(status, restore.status ?? {}))
    return { effects: [{ kind: "status", type: Restore, object: restore, status }], ...requeue };
  return { effects, ...requeue };
}
