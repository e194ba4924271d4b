import { type DeepReadonly, draft } from "@keelson/api-machinery";
import { defineController, type ReconcileContext, type Request, ignoreConflict } from "@keelson/controller";
import { Job } from "../api/job.ts";
import { TaskGroup } from "../api/taskgroup.ts";
import { taskGroupReads } from "./indexes.ts";
import { decideJob, type TaskGroupDraft } from "./job-decision.ts";
import { controllerReference } from "../work/owner.ts";

const fieldManager = "robots-job-controller";

/** Creates a TaskGroup for every group of a Job and aggregates their status. */
export const jobController = defineController({
  name: "robots-job",
  for: Job,
  owns: [TaskGroup],
  reads: [taskGroupReads],
  maxConcurrentReconciles: 4,
  reconcile,
});

async function reconcile(request: Request, context: ReconcileContext): Promise<void> {
  const { cache, client, clock, events, signal } = context;
  const job = cache.get(Job, request);
  if (job === undefined) return;
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
