import { type DeepReadonly, draft, isNotFound } from "@keelson/api-machinery";
import {
  defineController,
  type ReconcileContext,
  type Request,
  type Result,
  ignoreConflict,
  watchOf,
} from "@keelson/controller";
import { Job } from "../api/job.ts";
import { TaskGroup } from "../api/taskgroup.ts";
import { jobReads, taskGroupReads } from "./indexes.ts";
import { decideJob, type TaskGroupDraft } from "./job-decision.ts";
import { decideParent, isParent } from "./parent-decision.ts";
import { controllerReference } from "../work/owner.ts";

const fieldManager = "robots-job-controller";

/** Creates a TaskGroup for every group of a Job and aggregates their status. */
export const jobController = defineController({
  name: "robots-job",
  for: Job,
  owns: [TaskGroup],
  reads: [taskGroupReads, jobReads],
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
  { cache, client, clock, events, signal }: ReconcileContext,
): Promise<Result | undefined> {
  const children = cache.list(Job, { namespace, index: ["controller", job.metadata.uid ?? ""] });
  const decision = decideParent({ job, children, now: clock.now() });
  for (const child of decision.remove) {
    try {
      await client.delete(Job, { namespace, name: child }, { propagationPolicy: "Background", signal });
    } catch (error) {
      if (!isNotFound(error)) throw error;
    }
  }
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
  const decision = decideJob({
    job,
    groups: cache.list(TaskGroup, { namespace, index: ["controller", job.metadata.uid ?? ""] }),
    groupNamed: (name) => cache.get(TaskGroup, { namespace, name }),
    now: clock.now(),
  });
  // Children first: after a crash, a status without them would hide that they are missing.
  for (const group of decision.groups) await applyGroup(job, group, context);
  const status = decision.status;
  if (status === undefined) return;
  const written = await ignoreConflict(
    client.applyStatus(
      Job,
      { metadata: { name: request.name, namespace, resourceVersion: job.metadata.resourceVersion }, status },
      { fieldManager, signal },
    ),
  );
  if (written !== undefined && (status.state === "completed" || status.state === "failed")) {
    const isCompleted = status.state === "completed";
    events.event(job, {
      type: isCompleted ? "Normal" : "Warning",
      reason: isCompleted ? "Completed" : "Failed",
      note: status.statusDescription ?? "",
    });
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
