import { type DeepReadonly, isConditionTrue, jsonEquals } from "@keelson/api-machinery";
import { Node, type NodeObject, Pod, type PodObject, PriorityClass, RuntimeClass } from "@keelson/api-machinery/kinds";
import {
  type Change,
  type ControllerDefinition,
  defineController,
  generationChanged,
  ignoreConflict,
  type ReconcileContext,
  type Result,
  readOf,
  watchOf,
} from "@keelson/controller";
import { MPIJob } from "../api/mpi-job.ts";
import { MPIQueue, type QueueStatus } from "../api/mpi-queue.ts";
import { RhinoJob } from "../api/rhino-job.ts";
import type { PodTools } from "../children/job-templates.ts";
import type { JobView } from "../controllers/job-view.ts";
import { viewOfMpiJob } from "../controllers/mpi-job-view.ts";
import { admissionNeed } from "./admission-need.ts";
import { planAdmissions, type QueueState, type Verdict } from "./admission-plan.ts";
import { agedAfterMs } from "./job-order.ts";
import { PositionUpdates } from "./position-updates.ts";
import { hasEnded, jobId, queueStateOf } from "./queue-state.ts";
import { differsInReason, queueUse, statusOfVerdict, statusWithoutVerdict } from "./queue-status.ts";

/** Owner of `status.queue`. */
const fieldManager = "mpi-queue-controller";

/** Maximum number of concurrent writes. */
const maxConcurrentWrites = 8;

/** Delay before failed status writes are retried. */
const failureRetryMs = 10_000;

/** All jobs are one work item, because their order is decided across all of them. */
const allJobs = [{ name: "all-jobs" }];

/** Creates the controller that admits jobs of both kinds. */
export function createQueueController(options: { readonly tools: () => PodTools }): ControllerDefinition {
  const queue = new JobQueue(options.tools);
  return defineController({
    name: "mpi-queue",
    for: MPIQueue,
    predicates: [() => false],
    watches: [
      watchOf(MPIQueue, () => allJobs, [generationChanged]),
      watchOf(RhinoJob, () => allJobs, [affectsQueue]),
      watchOf(MPIJob, () => allJobs, [affectsQueue]),
      watchOf(Pod, () => allJobs, [freesCapacity]),
      watchOf(Node, () => allJobs, [affectsFit]),
      watchOf(PriorityClass, () => allJobs),
      watchOf(RuntimeClass, () => allJobs),
    ],
    reads: [readOf(PriorityClass), readOf(RuntimeClass)],
    maxConcurrentReconciles: 1,
    reconcile: (_request, context) => queue.reconcile(context),
  });
}

/** Plans, and writes admissions and positions. */
class JobQueue {
  readonly #tools: () => PodTools;
  readonly #positions = new PositionUpdates();

  constructor(tools: () => PodTools) {
    this.#tools = tools;
  }

  async reconcile(context: ReconcileContext): Promise<Result | undefined> {
    const { cache, clock } = context;
    const now = clock.now();
    const onFault = ({ metadata: { namespace, name } }: Pick<JobView, "metadata">, error: unknown): void =>
      context.log.warn({ namespace, name, err: error }, "skipped a job whose Pods cannot be computed");
    const jobs: readonly JobView[] = [...cache.list(RhinoJob), ...cache.list(MPIJob).map(viewOfMpiJob)];
    const queues = cache.list(MPIQueue);
    const state = queueStateOf({
      jobs,
      queues,
      nodes: cache.list(Node),
      pods: cache.list(Pod),
      priorityClasses: cache.list(PriorityClass),
      runtimeClasses: cache.list(RuntimeClass),
      tools: this.#tools(),
      now,
      onFault,
    });
    const verdicts = new Map(planAdmissions(state).map((verdict) => [verdict.job.id, verdict]));
    const { waitMs, failures } = await this.#writeJobs(jobs, verdicts, context);
    const useFailures = await tryEach(queues, context.signal, (queue) => writeUse(queue, state, verdicts, context));
    const allFailures = [...failures, ...useFailures];
    // Not thrown: the backoff of the only request would delay the admission of all other jobs.
    const [err] = allFailures;
    if (err !== undefined) context.log.error({ err, count: allFailures.length }, "failed to write queue statuses; retrying");
    const waits = [
      ...nextChanges(jobs, state),
      ...(waitMs === undefined ? [] : [waitMs]),
      ...(allFailures.length > 0 ? [failureRetryMs] : []),
    ];
    return waits.length === 0 ? undefined : { requeueAfterMs: Math.max(Math.min(...waits), 1) };
  }

  /** Writes what has changed, the admissions first. */
  async #writeJobs(
    jobs: readonly JobView[],
    verdicts: ReadonlyMap<string, Verdict>,
    context: ReconcileContext,
  ): Promise<{ readonly waitMs?: number; readonly failures: readonly unknown[] }> {
    const now = context.clock.now();
    const admissions: StatusWrite[] = [];
    const reasons: StatusWrite[] = [];
    const positions: StatusWrite[] = [];
    for (const job of jobs) {
      const verdict = verdicts.get(jobId(job));
      const status = verdict === undefined ? statusWithoutVerdict(job) : statusOfVerdict(job, verdict, now);
      const before = job.status?.queue;
      if (status === undefined || jsonEquals(status, before)) continue;
      const writes = verdict?.kind === "admitted" ? admissions : differsInReason(status, before) ? reasons : positions;
      writes.push({ job, status, verdict, position: status.position });
    }
    const { due, ...rest } = this.#positions.take(positions, context.clock.monotonic());
    const write = ({ job, status, verdict }: StatusWrite): Promise<void> => writeJob(job, status, verdict, context);
    const failures = [
      ...(await tryEach(admissions, context.signal, write)),
      ...(await tryEach([...reasons, ...due], context.signal, write)),
    ];
    return { ...rest, failures };
  }
}

/** A status to write. */
interface StatusWrite {
  readonly job: JobView;
  readonly status: QueueStatus;
  readonly verdict: Verdict | undefined;
  readonly position: number | undefined;
}

/** Handles all items, up to 8 at a time, and returns the errors. One failure does not stop the others. */
async function tryEach<T>(
  items: readonly T[],
  signal: AbortSignal,
  handle: (item: T) => Promise<void>,
): Promise<readonly unknown[]> {
  const failures: unknown[] = [];
  for (let start = 0; start < items.length; start += maxConcurrentWrites) {
    const results = await Promise.allSettled(items.slice(start, start + maxConcurrentWrites).map(handle));
    signal.throwIfAborted();
    for (const result of results) if (result.status === "rejected") failures.push(result.reason);
  }
  return failures;
}

async function writeJob(
  job: JobView,
  queue: QueueStatus,
  verdict: Verdict | undefined,
  { client, events, signal }: ReconcileContext,
): Promise<void> {
  const { name = "", namespace = "", uid = "" } = job.metadata;
  // The uid keeps the status off a later job of the same name.
  const configuration = { metadata: { name, namespace, uid }, status: { queue } };
  const options = { fieldManager, signal };
  const write =
    job.kind === MPIJob.kind
      ? client.applyStatus(MPIJob, configuration, options)
      : client.applyStatus(RhinoJob, configuration, options);
  if ((await ignoreConflict<unknown>(write)) === undefined || verdict === undefined) return;
  const before = job.status?.queue?.reason;
  if (verdict.kind === "admitted") {
    if (before !== undefined)
      events.event(job, { type: "Normal", reason: "Admitted", note: `admitted by queue ${queue.name}` });
  } else if (before !== verdict.reason)
    events.event(job, { type: "Normal", reason: "Queued", note: `${verdict.reason}: ${verdict.message}` });
}

async function writeUse(
  queue: DeepReadonly<MPIQueue>,
  { running }: QueueState,
  verdicts: ReadonlyMap<string, Verdict>,
  { client, signal }: ReconcileContext,
): Promise<void> {
  const name = queue.metadata.name ?? "";
  const all = [...verdicts.values()].filter(({ job }) => job.queue === name);
  const started = all.flatMap((verdict) => (verdict.kind === "admitted" ? [verdict.running] : []));
  const admitted = [...running.filter((job) => job.queue === name), ...started];
  const used = new Map<string, bigint>();
  for (const { total } of admitted)
    for (const [resource, amount] of total) used.set(resource, (used.get(resource) ?? 0n) + amount);
  const status = queueUse(queue, { pending: all.length - started.length, admitted: admitted.length, used });
  if (jsonEquals(status, queue.status)) return;
  await ignoreConflict<unknown>(client.applyStatus(MPIQueue, { metadata: { name }, status }, { fieldManager, signal }));
}

/** Times until the plan changes without an event: the end of a backoff, and jobs that go by age from then on. */
function nextChanges(jobs: readonly JobView[], { waiting, now }: QueueState): readonly number[] {
  const backoffs = jobs.flatMap((job) => {
    const need = admissionNeed(job);
    return need.kind === "waiting" && need.readyAt > now ? [need.readyAt - now] : [];
  });
  const ages = waiting.map(({ queuedAt }) => queuedAt + agedAfterMs - now).filter((left) => left > 0);
  return [...backoffs, ...(waiting.length < 2 ? [] : ages)];
}

type Job = DeepReadonly<RhinoJob> | DeepReadonly<MPIJob>;

/** Whether a job's change matters: anything but positions and progress. */
function affectsQueue({ type, object, old }: Change<RhinoJob> | Change<MPIJob>): boolean {
  if (type !== "update" || old === undefined) return true;
  const relevant = ({ metadata, status }: Job) => [
    metadata.uid,
    metadata.generation,
    metadata.labels,
    metadata.deletionTimestamp,
    ["Completed", "Failed"].includes(status?.jobStatus ?? ""),
    ...[status?.attempt, status?.startTime, status?.failures, status?.queue?.admittedAttempt],
    ...["Restarting", "Suspended"].map((each) => isConditionTrue(status?.conditions, each)),
  ];
  return !jsonEquals(relevant(object), relevant(old));
}

/** Whether a Pod has ended or was deleted. A Pod that takes capacity does not admit anything. */
function freesCapacity({ type, object, old }: Change<PodObject>): boolean {
  return type === "delete" || (type === "update" && hasEnded(object) && (old === undefined || !hasEnded(old)));
}

/** Whether other Pods may fit a node than before. */
function affectsFit({ type, object, old }: Change<NodeObject>): boolean {
  if (type !== "update" || old === undefined) return true;
  const relevant = ({ metadata, spec, status }: DeepReadonly<NodeObject>) => [
    ...[metadata.labels, spec?.taints, spec?.unschedulable, status?.allocatable, status?.capacity],
    isConditionTrue(status?.conditions ?? [], "Ready"),
  ];
  return !jsonEquals(relevant(object), relevant(old));
}
