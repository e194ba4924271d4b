import { type DeepReadonly, isConflict, isNotFound, isStatusError, type ObjectKey } from "@keelson/api-machinery";
import { Event, Job, type JobObject, Pod, type PodObject } from "@keelson/api-machinery/kinds";
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
import { labels } from "../api/names.ts";
import { RhinoJob } from "../api/rhino-job.ts";
import { type ChildNames, childNames } from "./child-names.ts";
import { type ChildOptions, createChildren, fieldManager, remove, suspend, writeHosts } from "./children.ts";

import { isCreating } from "./pod-trouble.ts";
import type { RhinoJobDecision, RhinoJobObservation } from "./observation.ts";
import { decideRefused, decideRhinoJob } from "./rhino-job-decision.ts";

/** Maximum number of Pods whose events are looked up in one reconcile. */
const maxMountChecks = 3;

/** Dependencies of the controller. */
export type RhinoJobControllerOptions = ChildOptions;

/** Creates the launcher and then the workers of a RhinoJob, maintains its status, and deletes it when its ttl has passed. */
export function createRhinoJobController(options: RhinoJobControllerOptions): ControllerDefinition {
  return defineController({
    name: "mpi-rhinojob",
    for: RhinoJob,
    owns: [Job],
    watches: [watchOf(Pod, jobOfPod)],
    reads: [readOf(Pod, { rhinoJob: (pod: DeepReadonly<PodObject>) => [pod.metadata.labels?.[labels.uid] ?? ""] })],
    maxConcurrentReconciles: 4,
    reconcile: (request, context) => reconcile(request, context, options),
  });
}

/** Maps a Pod to its RhinoJob through the Job that owns it. Labels are not enough, because any user can set them. */
function jobOfPod(pod: DeepReadonly<PodObject>, { cache }: Pick<ReconcileContext, "cache">): readonly Request[] {
  if (pod.metadata.labels?.[labels.uid] === undefined) return [];
  const { namespace } = pod.metadata;
  const owner = pod.metadata.ownerReferences?.find(({ controller, kind }) => controller && kind === "Job");
  const job = owner === undefined ? undefined : cache.get(Job, { namespace, name: owner.name });
  const grandOwner = job?.metadata.ownerReferences?.find(({ controller, kind }) => controller && kind === RhinoJob.kind);
  return grandOwner === undefined ? [] : [{ namespace, name: grandOwner.name }];
}

async function reconcile(
  request: Request,
  context: ReconcileContext,
  options: RhinoJobControllerOptions,
): Promise<Result | undefined> {
  const job = context.cache.get(RhinoJob, request);
  // Deleted. The garbage collector deletes its children.
  if (job === undefined) return undefined;
  const names = childNames(request.name, job.metadata.uid ?? "", job.status?.attempt);
  const observation = await observe(job, names, context);
  let decision = decideRhinoJob(observation);
  if (decision.isExpired) {
    await deleteExpired(request, job, context);
    return undefined;
  }
  // Children first: after a crash, a status without them would hide that they are missing.
  try {
    // A new attempt has children of its own.
    const { attempt } = decision.status ?? job.status ?? {};
    await createChildren(job, childNames(request.name, job.metadata.uid ?? "", attempt), decision, context, options);
  } catch (error) {
    // A retry would not help. Other rejections (a quota, a terminating namespace) are temporary, or the job is deleted too.
    if (!isStatusError(error, "Invalid")) throw error;
    decision = decideRefused(observation, error.message);
  }
  if (job.spec.hostfile === true && observation.workers !== undefined)
    await writeHosts(job, names, observation.workerPods, context);
  await writeStatus(job, decision, context);
  for (const child of decision.suspend) await suspend({ namespace: request.namespace, name: names[child] }, context);
  for (const child of decision.remove ?? []) await remove({ namespace: request.namespace, name: names[child] }, context);
  return decision.requeueAfterMs === undefined ? undefined : { requeueAfterMs: decision.requeueAfterMs };
}

async function observe(
  job: DeepReadonly<RhinoJob>,
  names: ChildNames,
  context: ReconcileContext,
): Promise<RhinoJobObservation> {
  const { namespace, uid = "" } = job.metadata;
  const { startTime, completionTime, conditions } = job.status ?? {};
  const hasStarted = startTime !== undefined && completionTime === undefined;
  const launcher = await find({ namespace, name: names.launcher }, hasStarted, context);
  const wasReady = conditions?.some(({ type, status }) => type === "LauncherReady" && status === "True") ?? false;
  const workers = await find({ namespace, name: names.workers }, hasStarted && wasReady, context);
  const pods = context.cache.list(Pod, { namespace, index: ["rhinoJob", uid] });
  const podsOf = (owner: DeepReadonly<JobObject> | undefined) =>
    pods.filter((pod) => owner !== undefined && pod.metadata.ownerReferences?.some((each) => each.uid === owner.metadata.uid));
  return {
    job,
    launcher,
    workers,
    launcherPods: podsOf(launcher),
    workerPods: podsOf(workers),
    mountFailureOf: await findMountFailures([...podsOf(launcher), ...podsOf(workers)], context),
    now: context.clock.now(),
  };
}

/** Deletes a RhinoJob whose ttl has passed, unless it was replaced. */
async function deleteExpired(
  request: Request,
  { metadata: { uid } }: DeepReadonly<RhinoJob>,
  { client, signal }: ReconcileContext,
): Promise<void> {
  const preconditions = uid ? { preconditions: { uid } } : {};
  try {
    await client.delete(RhinoJob, request, { propagationPolicy: "Background", ...preconditions, signal });
  } catch (error) {
    if (!isNotFound(error) && !isConflict(error)) throw error;
  }
}

/** Writes the status if it changed, and records the decision's events if it was written. */
async function writeStatus(
  job: DeepReadonly<RhinoJob>,
  decision: RhinoJobDecision,
  { client, events, signal }: ReconcileContext,
): Promise<void> {
  if (decision.status === undefined) return;
  const { name = "", namespace, resourceVersion } = job.metadata;
  const configuration = { metadata: { name, namespace, resourceVersion }, status: decision.status };
  const written = await ignoreConflict(client.applyStatus(RhinoJob, configuration, { fieldManager, signal }));
  if (written === undefined) return;
  for (const { type, reason, note } of decision.events) events.event(job, { type, reason, note });
}

/** Looks up the last `FailedMount` event of the first Pods that are being created. One reason is enough for the status. */
async function findMountFailures(
  pods: readonly DeepReadonly<PodObject>[],
  { client, signal }: ReconcileContext,
): Promise<(pod: DeepReadonly<PodObject>) => string | undefined> {
  const failures = new Map<string, string>();
  for (const pod of pods.filter(isCreating).slice(0, maxMountChecks)) {
    const { uid = "", namespace } = pod.metadata;
    const fieldSelector = `involvedObject.uid=${uid},reason=FailedMount`;
    const { items } = await client.list(Event, { namespace, fieldSelector, signal });
    const message = items.at(-1)?.message;
    if (message !== undefined && message !== "") failures.set(uid, message);
  }
  return (pod) => failures.get(pod.metadata.uid ?? "");
}

/** Gets a Job from the cache, or from the API server if it was created but the cache does not have it. */
async function find(
  key: ObjectKey,
  wasCreated: boolean,
  { cache, client, signal }: ReconcileContext,
): Promise<DeepReadonly<JobObject> | undefined> {
  const cached = cache.get(Job, key);
  if (cached !== undefined || !wasCreated) return cached;
  try {
    return await client.get(Job, key, { signal });
  } catch (error) {
    if (isNotFound(error)) return undefined;
    throw error;
  }
}
