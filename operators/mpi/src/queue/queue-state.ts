import { addAmounts, type Amounts, amountsOf, exclusionOf, podRequests } from "@keelson/api-machinery/scheduling";
import type { DeepReadonly } from "@keelson/api-machinery";
import type { NodeObject, PodObject } from "@keelson/api-machinery/kinds";
import type { MPIQueue } from "../api/mpi-queue.ts";
import { labels } from "../api/names.ts";
import { admittedPodSpec, type PodClasses, priorityOfClass } from "../children/admitted-pod.ts";
import { childNames } from "../children/child-names.ts";
import { layoutOf } from "../children/hosts.ts";
import { launcherJob, type PodTools, workersJob } from "../children/job-templates.ts";
import type { JobView } from "../controllers/job-view.ts";
import { deadlineMs, isManagedElsewhere } from "../controllers/run-policy.ts";
import { workerPodCount } from "../launch/launcher/host-layout.ts";
import { admissionNeed, isAdmittedByKueue, queueOf } from "./admission-need.ts";
import type { QueueState, WaitingJob } from "./admission-plan.ts";
import { Capacity, type Placement } from "./capacity.ts";
import { type Gang, type PodShape, totalOf } from "./gang.ts";
import type { QueueRules } from "./quota.ts";
import type { RunningJob } from "./reservation.ts";

/** Time that Pods may take to end after a job's deadline. */
const endGraceMs = 16_000;

const onePod = new Map([["pods", 1_000_000_000n]]);

/** Objects from which the queue's state follows. */
export interface QueueObjects extends PodClasses {
  readonly jobs: readonly JobView[];
  readonly nodes: readonly DeepReadonly<NodeObject>[];
  readonly pods: readonly DeepReadonly<PodObject>[];
  readonly queues: readonly DeepReadonly<MPIQueue>[];
  readonly tools: PodTools;
  readonly now: number;
  /** Called for a job whose Pods cannot be computed. The job is skipped. */
  readonly onFault?: (job: JobView, error: unknown) => void;
}

/** Identifies a job of either kind. */
export function jobId({ kind, metadata: { namespace = "", name = "" } }: JobView): string {
  return `${namespace}/${name}/${kind}`;
}

/**
 * The state of the queue. A job that was admitted holds what its Pods on nodes request, and room for those that are not on a node yet. All
 * other Pods that have not ended count as they are, and those of MPI jobs as ending.
 */
export function queueStateOf(objects: QueueObjects): QueueState {
  const { jobs, nodes, now, queues } = objects;
  const shapes = new PodShapes(nodes);
  const ownPods = new PodsByOwner(objects.pods);
  const held: { job: JobView; gang: Gang; onNodes: Placement; rest: Gang }[] = [];
  const waiting: WaitingJob[] = [];
  for (const job of jobs) {
    const need = admissionNeed(job);
    if (need.kind === "none") continue;
    let gang: Gang;
    try {
      gang = gangOf(job, need.attempt, shapes, objects);
    } catch (error) {
      // One job must not stop the admission of all others.
      objects.onFault?.(job, error);
      continue;
    }
    if (need.kind === "running") held.push({ job, gang, ...ownPods.take(job, need.attempt, gang) });
    else if (need.readyAt <= now) waiting.push(waitingJobOf(job, gang, objects));
  }
  const others = ownPods.others();
  const runningElsewhere = new Set(jobs.filter(runsElsewhere).map(({ metadata }) => metadata.uid));
  const known = new Set(jobs.map(({ metadata: { namespace, uid } }) => `${namespace}/${uid}`));
  // Any user can set the label: without a job of that uid, only a Pod that is being deleted counts as ending.
  const isEnding = (pod: DeepReadonly<PodObject>): boolean => {
    const { namespace, labels: podLabels, deletionTimestamp } = pod.metadata;
    const uid = podLabels?.[labels.uid];
    return isOfJob(pod) && !runningElsewhere.has(uid) && (deletionTimestamp !== undefined || known.has(`${namespace}/${uid}`));
  };
  const free = freeAmounts(
    nodes,
    others.filter((pod) => !isEnding(pod)),
  );
  const ending = placementOf(others.filter(isEnding));
  const left = new Capacity(free);
  left.take(ending);
  for (const { onNodes } of held) left.take(onNodes);
  const running = held.map(({ job, gang, onNodes, rest }): RunningJob => {
    const reserved = left.place(rest) ?? new Map<string, Amounts>();
    left.take(reserved);
    return { ...useOf(job, gang), id: jobId(job), placement: sumOf(onNodes, reserved), endsAt: endOf(job, now) };
  });
  const all = new Map<string, bigint>();
  for (const node of nodes) addAmounts(all, allocatableOf(node));
  const rules = new Map(queues.map((queue) => [queue.metadata.name ?? "", rulesOf(queue)]));
  return { free: nodes.length === 0 ? undefined : free, ending, all, running, waiting, rules, now };
}

/** Whether another system admits the job, which may be running. */
function runsElsewhere(job: JobView): boolean {
  const { jobStatus } = job.status ?? {};
  const isOver = jobStatus === "Completed" || jobStatus === "Failed" || job.metadata.deletionTimestamp !== undefined;
  return !isOver && (isManagedElsewhere(job) || isAdmittedByKueue(job));
}

function useOf(job: JobView, gang: Gang): Pick<RunningJob, "queue" | "namespace" | "total"> {
  return { queue: queueOf(job), namespace: job.metadata.namespace ?? "", total: totalOf(gang) };
}

function waitingJobOf(job: JobView, gang: Gang, objects: QueueObjects): WaitingJob {
  const { now } = objects;
  const { namespace = "", name = "", creationTimestamp } = job.metadata;
  const left = deadlineMs(job, now);
  const queuedAt = Date.parse(job.status?.queue?.queuedAt ?? "");
  const createdAt = Date.parse(creationTimestamp ?? "");
  return {
    ...useOf(job, gang),
    id: jobId(job),
    name: `${namespace}/${name}`,
    priority: priorityOf(job, objects),
    createdAt: Number.isNaN(createdAt) ? now : createdAt,
    queuedAt: Number.isNaN(queuedAt) ? now : queuedAt,
    gang,
    ...(left === undefined ? {} : { limitMs: Math.max(left, 0) + endGraceMs }),
  };
}

function endOf(job: JobView, now: number): number {
  const left = deadlineMs(job, now);
  return left === undefined ? Number.POSITIVE_INFINITY : now + Math.max(left, 0) + endGraceMs;
}

/** The priority as mpi-operator chooses it: of the scheduling policy, the launcher or the workers, or else the default one. */
function priorityOf({ spec }: JobView, classes: PodClasses): number {
  const name =
    spec.runPolicy?.schedulingPolicy?.priorityClass ||
    spec.launcherTemplate?.spec?.priorityClassName ||
    spec.workerTemplate?.spec?.priorityClassName;
  return priorityOfClass(name, classes);
}

function gangOf(job: JobView, attempt: number, shapes: PodShapes, objects: QueueObjects): Gang {
  const { tools, now } = objects;
  const names = childNames(job.metadata.name ?? "", job.metadata.uid ?? "", attempt);
  return {
    launcher: shapes.of(admittedPodSpec(launcherJob(job, names, tools, now).template.spec, objects)),
    worker: shapes.of(admittedPodSpec(workersJob(job, names, "", tools).template.spec, objects)),
    workers: workerPodCount(layoutOf(job)),
  };
}

function rulesOf({ spec }: DeepReadonly<MPIQueue>): QueueRules {
  const { quota, namespaceQuota, namespaces, hold, ignoreCapacity } = spec;
  return {
    ...(quota === undefined ? {} : { quota: amountsOf(quota) }),
    ...(namespaceQuota === undefined ? {} : { namespaceQuota: amountsOf(namespaceQuota) }),
    ...(namespaces === undefined ? {} : { namespaces: new Set(namespaces) }),
    ...(hold === undefined ? {} : { isHeld: hold }),
    ...(ignoreCapacity === undefined ? {} : { ignoresCapacity: ignoreCapacity }),
  };
}

const allocatableOf = ({ status }: DeepReadonly<NodeObject>): Amounts =>
  amountsOf(status?.allocatable ?? status?.capacity ?? {});

/** What nodes have alongside these Pods. */
function freeAmounts(
  nodes: readonly DeepReadonly<NodeObject>[],
  pods: readonly DeepReadonly<PodObject>[],
): ReadonlyMap<string, Amounts> {
  const capacity = new Capacity(new Map(nodes.map((node) => [node.metadata.name ?? "", allocatableOf(node)])));
  for (const pod of pods) capacity.take(new Map([[pod.spec.nodeName ?? "", requestsOf(pod)]]));
  return new Map(nodes.map(({ metadata: { name = "" } }) => [name, capacity.freeOn(name) ?? new Map()]));
}

function requestsOf(pod: Pick<DeepReadonly<PodObject>, "spec">): Amounts {
  const requests = new Map(podRequests(pod));
  addAmounts(requests, onePod);
  return requests;
}

function sumOf(a: Placement, b: Placement): Placement {
  const sum = new Map<string, Map<string, bigint>>();
  for (const placement of [a, b])
    for (const [node, amounts] of placement) {
      const on = sum.get(node) ?? new Map<string, bigint>();
      addAmounts(on, amounts);
      sum.set(node, on);
    }
  return sum;
}

/** Computes shapes of Pods. Pods with the same selectors and tolerations share their nodes. */
class PodShapes {
  readonly #nodes: readonly DeepReadonly<NodeObject>[];
  readonly #eligible = new Map<string, ReadonlySet<string>>();

  constructor(nodes: readonly DeepReadonly<NodeObject>[]) {
    this.#nodes = nodes;
  }

  of(spec: DeepReadonly<PodObject>["spec"]): PodShape {
    const key = JSON.stringify([spec.nodeSelector, spec.affinity, spec.tolerations]);
    const known = this.#eligible.get(key);
    const nodes =
      known ??
      new Set(this.#nodes.filter((node) => exclusionOf({ spec }, node) === undefined).map((node) => node.metadata.name ?? ""));
    this.#eligible.set(key, nodes);
    return { requests: requestsOf({ spec }), nodes };
  }
}

/** Pods by the Job that owns them. */
class PodsByOwner {
  readonly #pods = new Map<string, DeepReadonly<PodObject>[]>();
  readonly #all: readonly DeepReadonly<PodObject>[];
  readonly #taken = new Set<DeepReadonly<PodObject>>();

  constructor(pods: readonly DeepReadonly<PodObject>[]) {
    this.#all = pods;
    for (const pod of pods) {
      const owner = pod.metadata.ownerReferences?.find(({ controller, kind }) => controller && kind === "Job");
      if (owner === undefined) continue;
      const key = `${pod.metadata.namespace}/${owner.name}`;
      this.#pods.set(key, [...(this.#pods.get(key) ?? []), pod]);
    }
  }

  /** What an attempt's Pods hold on nodes, and its Pods that are not on a node yet. They no longer count as other Pods. */
  take(job: JobView, attempt: number, gang: Gang): { readonly onNodes: Placement; readonly rest: Gang } {
    const { namespace = "", name = "", uid = "" } = job.metadata;
    const names = childNames(name, uid, attempt);
    const launchers = this.#pods.get(`${namespace}/${names.launcher}`) ?? [];
    const workers = this.#pods.get(`${namespace}/${names.workers}`) ?? [];
    const own = [...launchers, ...workers];
    for (const pod of own) this.#taken.add(pod);
    const onNodes = placementOf(own.filter((pod) => isOnNode(pod) && !hasEnded(pod)));
    const isPlaced = (pod: DeepReadonly<PodObject>): boolean => isOnNode(pod) || hasEnded(pod);
    const { launcher, ...rest } = gang;
    const isOver = launchers.some(hasEnded);
    const left = isOver ? 0 : Math.max(gang.workers - workers.filter(isPlaced).length, 0);
    return { onNodes, rest: { ...rest, launcher: launchers.some(isPlaced) ? undefined : launcher, workers: left } };
  }

  /** Pods on nodes that were not taken and have not ended. */
  others(): readonly DeepReadonly<PodObject>[] {
    return this.#all.filter((pod) => isOnNode(pod) && !hasEnded(pod) && !this.#taken.has(pod));
  }
}

/** What Pods request on their nodes. */
function placementOf(pods: readonly DeepReadonly<PodObject>[]): Placement {
  const placement = new Map<string, Map<string, bigint>>();
  for (const pod of pods) {
    const { nodeName = "" } = pod.spec;
    const on = placement.get(nodeName) ?? new Map<string, bigint>();
    addAmounts(on, requestsOf(pod));
    placement.set(nodeName, on);
  }
  return placement;
}

/** Whether a Pod is of an MPI job: of one that has ended, unless it was taken. */
function isOfJob({ metadata }: DeepReadonly<PodObject>): boolean {
  const isOwned = metadata.ownerReferences?.some(({ controller, kind }) => controller === true && kind === "Job") === true;
  return isOwned && metadata.labels?.[labels.uid] !== undefined;
}

function isOnNode({ spec }: DeepReadonly<PodObject>): boolean {
  return spec.nodeName !== undefined && spec.nodeName !== "";
}

/** Whether a Pod has ended and holds nothing. */
export function hasEnded({ status }: DeepReadonly<PodObject>): boolean {
  return status?.phase === "Succeeded" || status?.phase === "Failed";
}
