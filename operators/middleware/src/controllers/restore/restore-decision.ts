import { type Condition, type DeepReadonly, draft, hasFinalizer, jsonEquals, setCondition } from "@keelson/api-machinery";
import { PersistentVolumeClaim, Pod } from "@keelson/api-machinery/kinds";
import type { RecoveryTarget } from "@keelson/middleware-agent";
import { formatTime, parseDuration, parseTime } from "@keelson/api-machinery/time";
import { App } from "../../api/app.ts";
import { backupFinalizer, type TransferStatus } from "../../api/backup-parts.ts";
import { Restore, type RestoreSource, type RestoreSpec, type RestoreStatus } from "../../api/restore.ts";
import type { TransferWork } from "../../backup/transfer.ts";
import { agentUrl, deletePods } from "../backup/backup-decision.ts";
import { transferPod } from "../backup/transfer-pod.ts";
import { runStep, type StepOutcome } from "../backup/transfer-step.ts";
import type { Decision, Effect } from "../effect.ts";
import { appOf } from "./restore-app.ts";
import { hasEnded, isOwnApp, type RestoreObservation, sourceOf, targetApp } from "./restore-observation.ts";
import { refusalOf } from "./restore-refusal.ts";

/**
 * Decides about a Restore. Pure. A changed status is written first and alone; a controller that crashes repeats the rest.
 *
 * ```text
 *   Pending --> Checking --> [Creating] --> Loading <-> Syncing --> Completed
 *      |            |            |             |           |
 *      +------------+------------+-------------+-----------+--> Failed
 * ```
 *
 * **Guarantees**: nothing is created, stopped or changed before all of the stored data was read and verified. An existing App is changed
 * only if `spec.overwrite` names it, and so are the volumes that a deleted App has left. Completed means that the primary into which the
 * data was loaded was still the primary when all Pods were ready.
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
  if (refusal !== undefined) {
    // Its volumes belong to the App of someone else.
    if (observed.app !== undefined && !isOwnApp(observed.app, restore)) delete status.createsApp;
    return end(observed, status, refusal);
  }
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

function pending(observed: RestoreObservation, status: RestoreStatus): Decision {
  const { restore, backup } = observed;
  const { name } = restore.spec.backup;
  const source = sourceOf(status, backup);
  if (backup?.status?.phase === "Completed" && source !== undefined) {
    if (restore.spec.target !== undefined && (source.logFolder === undefined || source.artifact.logStart === undefined))
      return end(observed, status, `spec.target: the log was not archived when Backup ${name} was taken`);
    status.source = draft(source) as RestoreSource;
    status.phase = "Checking";
    status.message = "verifying the data";
  } else status.message = backup === undefined ? `Backup ${name} not found` : `waiting for the Backup ${name} to complete`;
  return settle(observed, status, []);
}

/** Added to the message of a failed load whose outcome is not known. */
const dataUnknown = "the data of the App may have been replaced: restore again, or check it";

/** Runs the Pod that verifies, or that loads. */
function transferring(observed: RestoreObservation, status: RestoreStatus, step: "check" | "load"): Decision {
  const { restore, backup, app, group, primary, pods, now } = observed;
  const { timeout = "1h", maxRetries = 3 } = restore.spec;
  const isRepeated = (status.attempt ?? 1) > 1 || (status.reloads ?? 0) > 0;
  const outcome = runStep(step, status, {
    name: restore.metadata.name ?? "",
    ...{ timeout, maxRetries, now },
    pod: pods.find(({ metadata }) => metadata.name === restore.status?.transfer?.pod),
    begin: () => {
      if (sourceOf(status, backup) === undefined) return { problem: `Backup ${restore.spec.backup.name} not found` };
      if (app === undefined) return {};
      const elected = group?.status?.primary;
      if (primary === undefined || elected === undefined)
        return { problem: `the App ${app.metadata.name} has no primary that responds` };
      if (step === "load") status.loadedInto = { pod: elected.pod, epoch: elected.epoch };
      return { agent: agentUrl(primary) };
    },
  });
  if (outcome.kind === "failed") {
    // An agent that died may have loaded the data, and so may an earlier attempt.
    const isKept = step === "check" || (outcome.isDataKept && !isRepeated);
    return end(observed, status, isKept ? outcome.message : `${outcome.message}; ${dataUnknown}`);
  }
  if (outcome.kind === "done") {
    if (step === "load") {
      status.keys = outcome.result.keys ?? 0;
      enter(observed, status, "Syncing", "waiting for the replicas");
    } else {
      // Recorded before the App is created, so that its name is reserved.
      const { pod: name, uid = "" } = outcome.transfer;
      if (restore.spec.verify) status.scratchOwner = { name, uid };
      if (app === undefined) enter(observed, status, "Creating", `creating the App ${status.app}`);
      else enter(observed, status, "Loading", "loading the data");
    }
    return settle(observed, status, []);
  }
  if (outcome.message !== "") status.message = outcome.message;
  const dueMs = outcome.kind === "waiting" ? outcome.dueMs : undefined;
  return settle(observed, status, effectsOf(observed, status, outcome), dueMs);
}

/** Changes the phase. Loading has a timeout for each of its attempts, the others one for all. */
function enter(
  { restore, now }: RestoreObservation,
  status: RestoreStatus,
  phase: "Creating" | "Loading" | "Syncing",
  message: string,
): void {
  status.phase = phase;
  status.message = message;
  if (phase === "Loading") delete status.deadlineAt;
  else status.deadlineAt = formatTime(now + parseDuration(restore.spec.timeout ?? "1h"));
}

/** Waits until the deadline of the phase, and fails then. */
function waitUntilDeadline(observed: RestoreObservation, status: RestoreStatus, effects: readonly Effect[]): Decision {
  const { restore, now } = observed;
  const { timeout = "1h" } = restore.spec;
  status.deadlineAt ??= formatTime(now + parseDuration(timeout));
  const dueMs = parseTime(status.deadlineAt) ?? now;
  if (now >= dueMs) return end(observed, status, `${status.phase} exceeded the timeout of ${timeout}: ${status.message}`);
  return settle(observed, status, effects, dueMs);
}

function effectsOf(observed: RestoreObservation, status: RestoreStatus, outcome: StepOutcome): Effect[] {
  const { restore, backup, app, command, pods } = observed;
  const current = status.transfer?.pod;
  const source = sourceOf(status, backup);
  if (outcome.kind === "create" && source !== undefined) {
    const { transfer } = outcome;
    const pod = transferPod({
      owner: restore,
      settings: source,
      app: transfer.agent === undefined ? undefined : app?.metadata.name,
      hasTls: observed.group?.spec.tls !== undefined,
      image: source.image,
      work: workOf(transfer, source, restore.spec.target),
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

function workOf(
  { step, agent }: TransferStatus,
  { artifact, logFolder }: DeepReadonly<RestoreSource>,
  target: DeepReadonly<RestoreSpec>["target"],
): TransferWork {
  const recovery =
    target === undefined || logFolder === undefined ? {} : { recovery: { folder: logFolder, target: targetOf(target) } };
  if (step === "load") return { kind: "load", agent: agent ?? "", artifact, ...recovery };
  return { kind: "check", artifact, ...(agent === undefined ? {} : { agent }), ...recovery };
}

function targetOf({ time, position }: NonNullable<DeepReadonly<RestoreSpec>["target"]>): RecoveryTarget {
  if (time !== undefined) return { kind: "time", time };
  return position === undefined ? { kind: "latest" } : { kind: "position", position };
}

/** Creates the App with the spec of the backup, and waits until it runs. */
function creating(observed: RestoreObservation, status: RestoreStatus): Decision {
  const { app, backup, primary, restore } = observed;
  status.createsApp = true;
  if (app !== undefined && app.status?.phase === "Running" && primary !== undefined) {
    enter(observed, status, "Loading", "loading the data");
    return settle(observed, status, []);
  }
  status.message = `waiting for the App ${status.app}: ${app?.status?.message ?? "creating"}`;
  const source = sourceOf(status, backup);
  if (app !== undefined || source === undefined) return waitUntilDeadline(observed, status, []);
  const object = appOf(restore, source, status.scratchOwner);
  return waitUntilDeadline(observed, status, [{ kind: "create", type: App, object }]);
}

/** Waits until all Pods have the data, and compares it. */
function syncing(observed: RestoreObservation, status: RestoreStatus): Decision {
  const { backup, group, restore } = observed;
  const { keys = 0, loadedInto } = status;
  const { artifact } = sourceOf(status, backup) ?? {};
  // Keys with a time to live may have expired since the backup.
  if (artifact !== undefined && (keys > artifact.keys || keys < artifact.keys - artifact.expiringKeys))
    return end(
      observed,
      status,
      `the App has ${keys} ${artifact.unit ?? "keys"} after the load; the backup has ${artifact.keys}`,
    );
  const { readyReplicas = 0, replicas = 1, primary } = group?.status ?? {};
  if (loadedInto !== undefined && primary !== undefined && !isSamePrimary(loadedInto, primary)) {
    const { maxRetries = 3 } = restore.spec;
    const reloads = status.reloads ?? 0;
    const change = `the primary changed from ${loadedInto.pod} to ${primary.pod}`;
    if (reloads >= maxRetries) return end(observed, status, `${change} after the data was loaded ${reloads + 1} times`);
    // The new primary may never have received the data.
    status.reloads = reloads + 1;
    enter(observed, status, "Loading", `loading the data again: ${change}`);
    return settle(observed, status, []);
  }
  status.message = `waiting for the replicas: ${readyReplicas} of ${replicas} Pods are ready`;
  if (primary === undefined || readyReplicas < replicas) return waitUntilDeadline(observed, status, []);
  const what = restore.spec.verify ? "verified" : "restored";
  return end(observed, status, undefined, `${what} ${keys} ${artifact?.unit ?? "keys"} of Backup ${restore.spec.backup.name}`);
}

type Primary = NonNullable<RestoreStatus["loadedInto"]>;

const isSamePrimary = (a: Primary, b: DeepReadonly<Primary>): boolean => a.pod === b.pod && a.epoch === b.epoch;

function end(observed: RestoreObservation, status: RestoreStatus, error: string | undefined, message = ""): Decision {
  const { restore, now } = observed;
  status.phase = error === undefined ? "Completed" : "Failed";
  status.completedAt = formatTime(now);
  status.message = error ?? message;
  delete status.retryAt;
  delete status.transfer;
  delete status.deadlineAt;
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
  // The garbage collector deletes it with its owner.
  if (isOwnApp(app, restore) && status.createsApp) return { effects };
  const left = app === undefined && status.createsApp ? claims : [];
  for (const { metadata } of left.filter((claim) => claim.metadata.deletionTimestamp === undefined))
    effects.push({
      kind: "delete",
      type: PersistentVolumeClaim,
      key: { namespace: metadata.namespace, name: metadata.name ?? "" },
      uid: metadata.uid ?? "",
    });
  if (effects.some((effect) => effect.kind === "delete" && effect.type === PersistentVolumeClaim)) return { effects };
  return {
    effects: [...effects, { kind: "remove-finalizer", type: Restore, object: restore, finalizer: backupFinalizer }],
  };
}

function settle(
  { restore, now }: RestoreObservation,
  status: RestoreStatus,
  effects: readonly Effect[],
  dueMs?: number,
): Decision {
  const requeue = dueMs === undefined ? {} : { requeueAfterMs: Math.max(dueMs - now, 10) };
  if (!jsonEquals(status, restore.status ?? {}))
    return { effects: [{ kind: "status", type: Restore, object: restore, status }], ...requeue };
  return { effects, ...requeue };
}
