import {
  type DeepReadonly,
  ignoreNotFound,
  isConditionTrue,
  isConflict,
  isControlledBy,
  isNotFound,
  isStatusError,
  type KubernetesObject,
  type ObjectKey,
  type ResourceDefinition,
} from "@keelson/api-machinery";
import { Job, type JobObject, Pod, type PodObject, PriorityClass, RuntimeClass } from "@keelson/api-machinery/kinds";
import {
  type ControllerDefinition,
  defineController,
  type ReconcileContext,
  type Request,
  type Result,
  readOf,
  watchOf,
  ignoreConflict,
} from "@keelson/controller";
import type { ApplyOptions, Client } from "@keelson/client";
import { labels } from "../api/names.ts";
import type { JobView } from "./job-view.ts";
import type { Status } from "./job-status.ts";
import { type ChildNames, childNames } from "../children/child-names.ts";
import {
  type ChildOptions,
  createChildren,
  fieldManager,
  remove,
  suspend,
  writeHosts,
  writePodGroup,
} from "../children/children.ts";
import { removePodGroup } from "../gang/pod-group.ts";
import { isMpiError } from "../launch/mpi-error.ts";
import { isAdmittedByKueue } from "../queue/admission-need.ts";
import { findMountFailures } from "./mount-failures.ts";
import { ProgressUpdates } from "./progress-updates.ts";
import type { RhinoJobDecision, RhinoJobObservation } from "./observation.ts";
import { decideInterruptedStart, decideRefused, decideRhinoJob, decideWithoutPodGroups } from "./rhino-job-decision.ts";
import { isManagedElsewhere, isRestarting, isSuspended } from "./run-policy.ts";

/** A kind of job, as the controller serves it. */
export interface JobKind<T extends KubernetesObject> {
  /** Name of the controller. */
  readonly name: string;
  readonly type: ResourceDefinition<T>;
  viewOf(object: DeepReadonly<T>): JobView;
  /** Why a job cannot run; undefined if it can. Default: the schema checks everything. */
  faultOf?(object: DeepReadonly<T>): string | undefined;
  applyStatus(client: Client, status: JobStatusConfiguration, options: ApplyOptions): Promise<unknown>;
}

/** A status to apply. */
export interface JobStatusConfiguration {
  readonly metadata: { readonly name: string; readonly namespace?: string; readonly resourceVersion?: string };
  readonly status: Status;
}

/** Creates the launcher and the workers of a job, maintains its status, and deletes it when its ttl has passed. */
export function createJobController<T extends KubernetesObject>(kind: JobKind<T>, options: ChildOptions): ControllerDefinition {
  const podIndex = podIndexOf(kind);
  const updates = new ProgressUpdates();
  return defineController({
    name: kind.name,
    for: kind.type,
    owns: [Job],
    watches: [watchOf(Pod, (pod, context) => jobOfPod(pod, context, kind.type.kind))],
    reads: [
      readOf(Pod, { [podIndex]: (pod: DeepReadonly<PodObject>) => [pod.metadata.labels?.[labels.uid] ?? ""] }),
      ...(options.gang === undefined ? [] : [readOf(PriorityClass), readOf(RuntimeClass)]),
    ],
    maxConcurrentReconciles: 4,
    reconcile: (request, context) => reconcile(kind, request, context, options, updates),
  });
}

/** Name of the index of Pods by the job that they belong to. */
function podIndexOf({ name }: { readonly name: string }): string {
  return `${name}-uid`;
}

/** Maps a Pod to its job through the Job that owns it. Labels are not enough, because any user can set them. */
function jobOfPod(
  pod: DeepReadonly<PodObject>,
  { cache }: Pick<ReconcileContext, "cache">,
  jobKind: string,
): readonly Request[] {
  if (pod.metadata.labels?.[labels.uid] === undefined) return [];
  const { namespace } = pod.metadata;
  const owner = pod.metadata.ownerReferences?.find(({ controller, kind }) => controller && kind === "Job");
  const job = owner === undefined ? undefined : cache.get(Job, { namespace, name: owner.name });
  const grandOwner = job?.metadata.ownerReferences?.find(({ controller, kind }) => controller && kind === jobKind);
  return grandOwner === undefined ? [] : [{ namespace, name: grandOwner.name }];
}

async function reconcile<T extends KubernetesObject>(
  kind: JobKind<T>,
  request: Request,
  context: ReconcileContext,
  options: ChildOptions,
  updates: ProgressUpdates,
): Promise<Result | undefined> {
  const object = context.cache.get(kind.type, request);
  const id = `${request.namespace}/${request.name}`;
  // Deleted. The garbage collector deletes its children.
  if (object === undefined) {
    updates.forget(id);
    return undefined;
  }
  const job = kind.viewOf(object);
  const namesOf = (status: JobView["status"]): ChildNames => childNames(request.name, job.metadata.uid ?? "", status?.attempt);
  let names = namesOf(job.status);
  let observation = await observe(job, names, podIndexOf(kind), context, options);
  let decision = await withInterruptedStart(decideRhinoJob(observation), observation, context);
  const fault = decision.createLauncher || decision.awaitsAdmission ? kind.faultOf?.(object) : undefined;
  if (fault !== undefined) decision = decideRefused(observation, fault);
  if (decision.isExpired) {
    await deleteExpired(kind, request, job, context);
    return undefined;
  }
  // Children first: after a crash, a status without them would hide that they are missing.
  try {
    // A new attempt has children of its own.
    await createChildren(job, namesOf(decision.status ?? job.status), decision, context, options);
  } catch (error) {
    if (isMpiError(error, "PodGroupsUnknown")) decision = decideWithoutPodGroups(observation, error.message);
    // A retry would not help. Other rejections (a quota, a terminating namespace) are temporary, or the job is deleted too.
    else if (isStatusError(error, "Invalid") || isMpiError(error, "PodGroupTaken")) {
      // The job ends with the attempt that some children were created for.
      const { status } = decision.createLauncher ? decideInterruptedStart(observation, decision.status?.attempt) : job;
      names = namesOf(status);
      if (status !== undefined) observation = await observe({ ...job, status }, names, podIndexOf(kind), context, options);
      decision = decideRefused(observation, error.message);
    } else throw error;
  }
  await maintainPodGroup(job, namesOf(decision.status ?? job.status), decision, context, options);
  if (job.spec.hostfile === true && observation.workers !== undefined)
    await writeHosts(job, names, observation.workerPods, context);
  // A job whose stop is not recorded could be resumed with stopped Jobs. The change that caused a conflict leads to another reconcile.
  const delayMs = progressDelayMs(id, job, decision, updates, context);
  if (delayMs > 0) return { requeueAfterMs: Math.min(delayMs, decision.requeueAfterMs ?? delayMs) };
  if (!(await writeStatus(kind, job, decision, context))) return undefined;
  if (decision.status?.completionTime !== undefined) updates.forget(id);
  else if (decision.status !== undefined) updates.written(id, context.clock.monotonic());
  for (const child of decision.suspend) await suspend({ namespace: request.namespace, name: names[child] }, context);
  for (const child of decision.remove ?? []) await remove({ namespace: request.namespace, name: names[child] }, context);
  return decision.requeueAfterMs === undefined ? undefined : { requeueAfterMs: decision.requeueAfterMs };
}

/** Time until the status of a decision may be written. */
function progressDelayMs(
  id: string,
  job: JobView,
  { status, events, suspend: stopped, remove: removed = [] }: RhinoJobDecision,
  updates: ProgressUpdates,
  { clock }: ReconcileContext,
): number {
  if (status === undefined || events.length + stopped.length + removed.length > 0) return 0;
  return updates.delayMs(id, job.status, status, clock.monotonic());
}

/**
 * Replaces a decision about a failed or suspended attempt if the next one was started by a reconcile whose status was not written: its
 * launcher may be running.
 */
async function withInterruptedStart(
  decision: RhinoJobDecision,
  observation: RhinoJobObservation,
  context: ReconcileContext,
): Promise<RhinoJobDecision> {
  const { job } = observation;
  const { attempt: last = 0, jobStatus } = job.status ?? {};
  const isOver = jobStatus === "Completed" || jobStatus === "Failed";
  if (isOver || decision.createLauncher || !(isRestarting(job) || isSuspended(job))) return decision;
  if (job.metadata.deletionTimestamp !== undefined || isManagedElsewhere(job)) return decision;
  const { name = "", namespace, uid = "" } = job.metadata;
  const key = { namespace, name: childNames(name, uid, last + 1).launcher };
  // Nothing would find the launcher after the end of the job, so the cache is not enough then.
  const launcher = await find(key, decision.status?.jobStatus === "Failed", context);
  if (launcher === undefined || !isControlledBy(launcher, job)) return decision;
  return decideInterruptedStart(observation, last + 1);
}

/** Deletes the PodGroup of an attempt that is over before that is recorded, and updates that of a running one when its job has changed. */
async function maintainPodGroup(
  job: JobView,
  names: ChildNames,
  { createLauncher, status }: RhinoJobDecision,
  context: ReconcileContext,
  options: ChildOptions,
): Promise<void> {
  const { gang } = options;
  if (gang === undefined || status === undefined || createLauncher) return;
  const isOver = ["Completed", "Failed", "Suspended"].includes(status.jobStatus ?? "");
  if (isOver || isConditionTrue(status.conditions, "Restarting")) await removePodGroup(job, names, gang, context);
  else if (job.status?.observedGeneration !== job.metadata.generation) await updatePodGroup(job, names, context, options);
}

/** Updates the PodGroup of a running job. A group that cannot be updated does not keep the job from running. */
async function updatePodGroup(
  job: JobView,
  names: ChildNames,
  context: ReconcileContext,
  options: ChildOptions,
): Promise<void> {
  try {
    await writePodGroup(job, names, context, options);
  } catch (error) {
    // 400 and 403 are denials of webhooks and quotas.
    const isRejected = isStatusError(error) && [400, 403, 422].includes(error.status.code ?? 0);
    if (!isRejected && !isMpiError(error, "PodGroupTaken") && !isMpiError(error, "PodGroupsUnknown")) throw error;
    const note = error instanceof Error ? error.message : String(error);
    context.events.event(job, { type: "Warning", reason: "PodGroupRejected", note });
  }
}

async function observe(
  job: JobView,
  names: ChildNames,
  podIndex: string,
  context: ReconcileContext,
  { gang }: ChildOptions,
): Promise<RhinoJobObservation> {
  const { namespace, uid = "" } = job.metadata;
  const { startTime, completionTime, conditions } = job.status ?? {};
  const hasStarted = startTime !== undefined && completionTime === undefined;
  const launcher = await find({ namespace, name: names.launcher }, hasStarted, context);
  const hadWorkers = ["WorkersCreated", "LauncherReady"].some((type) => isConditionTrue(conditions, type));
  const workers = await find({ namespace, name: names.workers }, hasStarted && hadWorkers, context);
  const pods = context.cache.list(Pod, { namespace, index: [podIndex, uid] });
  const podsOf = (owner: DeepReadonly<JobObject> | undefined) =>
    pods.filter((pod) => owner !== undefined && isControlledBy(pod, owner));
  return {
    job,
    launcher,
    workers,
    launcherPods: podsOf(launcher),
    workerPods: podsOf(workers),
    mountFailureOf: await findMountFailures([...podsOf(launcher), ...podsOf(workers)], context),
    // With gang scheduling, the scheduler admits jobs.
    needsAdmission: gang === undefined && !isAdmittedByKueue(job),
    startsTogether: gang !== undefined,
    now: context.clock.now(),
  };
}

/** Deletes a job whose ttl has passed, unless it was replaced. */
async function deleteExpired<T extends KubernetesObject>(
  kind: JobKind<T>,
  request: Request,
  { metadata: { uid } }: JobView,
  { client, signal }: ReconcileContext,
): Promise<void> {
  const preconditions = uid ? { preconditions: { uid } } : {};
  try {
    await client.delete(kind.type, request, { propagationPolicy: "Background", ...preconditions, signal });
  } catch (error) {
    if (!isNotFound(error) && !isConflict(error)) throw error;
  }
}

/** Writes the status if it changed, and records the decision's events. Returns false if the job has changed or was deleted. */
async function writeStatus<T extends KubernetesObject>(
  kind: JobKind<T>,
  job: JobView,
  decision: RhinoJobDecision,
  { client, events, signal }: ReconcileContext,
): Promise<boolean> {
  if (decision.status === undefined) return true;
  const { name = "", namespace, resourceVersion } = job.metadata;
  const metadata = {
    name,
    ...(namespace === undefined ? {} : { namespace }),
    ...(resourceVersion === undefined ? {} : { resourceVersion }),
  };
  const written = await ignoreConflict(
    kind.applyStatus(client, { metadata, status: decision.status }, { fieldManager, signal }),
  );
  if (written === undefined) return false;
  for (const { type, reason, note } of decision.events) events.event(job, { type, reason, note });
  return true;
}

/** Gets a Job from the cache, or from the API server if it was created but the cache does not have it. */
async function find(
  key: ObjectKey,
  wasCreated: boolean,
  { cache, client, signal }: ReconcileContext,
): Promise<DeepReadonly<JobObject> | undefined> {
  const cached = cache.get(Job, key);
  if (cached !== undefined || !wasCreated) return cached;
  return ignoreNotFound(client.get(Job, key, { signal }));
}
