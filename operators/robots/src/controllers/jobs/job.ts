import { type DeepReadonly, draft, isAlreadyExists, isNotFound, type ResourceType } from "@keelson/api-machinery";
import {
  defineController,
  type ReconcileContext,
  type Request,
  type Result,
  ignoreConflict,
  watchOf,
} from "@keelson/controller";
import { Job } from "../../api/job.ts";
import { TaskGroup } from "../../api/taskgroup.ts";
import { jobReads, revisionReads, taskGroupReads } from "../indexes.ts";
import { ControllerRevision } from "@keelson/api-machinery/kinds";
import { revisionsOf } from "../../rollout/job-revision.ts";
import { decideJob } from "./job-decision.ts";
import type { JobDecision, TaskGroupDraft } from "./job-observation.ts";
import { decideParent, isParent } from "./parent-decision.ts";
import { labels } from "../../api/names.ts";
import { labelValue } from "../../work/child-name.ts";
import { controllerReference } from "../../work/owner.ts";

const fieldManager = "robots-job-controller";

/** Creates a TaskGroup for every group of a Job, rolls out its revisions and aggregates the status of the groups. */
export const jobController = defineController({
  name: "robots-job",
  for: Job,
  owns: [TaskGroup, ControllerRevision],
  reads: [taskGroupReads, jobReads, revisionReads],
  watches: [watchOf(Job, parentOf)],
  maxConcurrentReconciles: 4,
  reconcile,
});

/** The periodic or parameterized Job that a Job was created from. */
function parentOf({ metadata }: DeepReadonly<Job>): Request[] {
  const owner = metadata.ownerReferences?.find(({ controller, kind }) => controller === true && kind === Job.kind);
  return owner === undefined ? [] : [{ namespace: metadata.namespace, name: owner.name }];
}

async function reconcile(request: Request, context: ReconcileContext): Promise<Result | undefined> {
  const job = context.cache.get(Job, request);
  if (job === undefined) return undefined;
  if (isParent(job)) return await reconcileParent(job, request, context);
  await reconcileWork(job, request, context);
  return undefined;
}

async function reconcileParent(
  job: DeepReadonly<Job>,
  { namespace, name }: Request,
  context: ReconcileContext,
): Promise<Result | undefined> {
  const { cache, client, clock, events, signal } = context;
  const children = cache.list(Job, { namespace, index: ["controller", job.metadata.uid ?? ""] });
  const decision = decideParent({ job, children, now: clock.now() });
  for (const child of decision.remove) await remove(Job, child, { namespace, name }, context);
  const { create, status } = decision;
  if (create !== undefined) {
    const metadata = {
      name: create.name,
      namespace,
      labels: { ...create.labels },
      ownerReferences: [controllerReference(Job, job)],
    };
    await client.apply(Job, { metadata, spec: draft(create.spec) }, { fieldManager, signal });
  }
  if (status !== undefined) {
    const metadata = { name, namespace, resourceVersion: job.metadata.resourceVersion };
    const written = await ignoreConflict(client.applyStatus(Job, { metadata, status }, { fieldManager, signal }));
    if (written !== undefined && decision.event !== undefined) events.event(job, decision.event);
  }
  return decision.requeueAfterMs === undefined ? undefined : { requeueAfterMs: decision.requeueAfterMs };
}

async function reconcileWork(job: DeepReadonly<Job>, request: Request, context: ReconcileContext): Promise<void> {
  const { cache, client, clock, events, signal } = context;
  const { namespace } = request;
  const { uid = "" } = job.metadata;
  const decision = decideJob({
    job,
    groups: cache.list(TaskGroup, { namespace, index: ["controller", uid] }),
    revisions: revisionsOf(cache.list(ControllerRevision, { namespace, index: ["controller", uid] })),
    groupNamed: (name) => cache.get(TaskGroup, { namespace, name }),
    now: clock.now(),
  });
  // Children first: after a crash, a status without them would hide that they are missing.
  if (decision.newRevision !== undefined) await createRevision(job, decision.newRevision, context);
  for (const group of decision.groups) await applyGroup(job, group, context);
  for (const group of decision.removeGroups ?? []) await remove(TaskGroup, group, request, context);
  for (const revision of decision.removeRevisions ?? []) await remove(ControllerRevision, revision, request, context);
  const status = decision.status;
  if (status === undefined) return;
  const written = await ignoreConflict(
    client.applyStatus(
      Job,
      { metadata: { name: request.name, namespace, resourceVersion: job.metadata.resourceVersion }, status },
      { fieldManager, signal },
    ),
  );
  if (written === undefined) return;
  for (const event of decision.events ?? []) events.event(job, event);
  if (job.status?.state !== status.state && (status.state === "completed" || status.state === "failed")) {
    const isCompleted = status.state === "completed";
    events.event(job, {
      type: isCompleted ? "Normal" : "Warning",
      reason: isCompleted ? "Completed" : "Failed",
      note: status.statusDescription ?? "",
    });
  }
}

async function remove(
  type: ResourceType,
  name: string,
  { namespace }: Request,
  { client, signal }: ReconcileContext,
): Promise<void> {
  try {
    await client.delete(type, { namespace, name }, { propagationPolicy: "Background", signal });
  } catch (error) {
    if (!isNotFound(error)) throw error;
  }
}

/** Stores the spec as a revision. A revision of that number that the cache does not show yet is left as it is. */
async function createRevision(
  job: DeepReadonly<Job>,
  { name, number, data }: NonNullable<JobDecision["newRevision"]>,
  { client, signal }: ReconcileContext,
): Promise<void> {
  const { namespace, name: jobName = "" } = job.metadata;
  const metadata = {
    name,
    namespace,
    labels: { [labels.job]: labelValue(jobName) },
    ownerReferences: [controllerReference(Job, job)],
  };
  try {
    await client.create(ControllerRevision, { metadata, revision: number, data }, { signal });
  } catch (error) {
    if (!isAlreadyExists(error)) throw error;
  }
}

async function applyGroup(job: DeepReadonly<Job>, group: TaskGroupDraft, context: ReconcileContext): Promise<void> {
  await context.client.apply(
    TaskGroup,
    {
      metadata: {
        name: group.name,
        namespace: job.metadata.namespace,
        labels: { ...group.labels },
        ownerReferences: [controllerReference(Job, job)],
      },
      spec: draft(group.spec),
    },
    { fieldManager, signal: context.signal },
  );
}
