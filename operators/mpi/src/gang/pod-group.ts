import {
  controllerReference,
  type DeepReadonly,
  ignoreNotFound,
  isConflict,
  isControlledBy,
  isNotFound,
  type ObjectMeta,
  type ResourceType,
} from "@keelson/api-machinery";
import type { JobObject } from "@keelson/api-machinery/kinds";
import { formatQuantity } from "@keelson/api-machinery/quantity";
import { podRequests } from "@keelson/api-machinery/scheduling";
import type { ReconcileContext } from "@keelson/controller";
import type { ChildNames } from "../children/child-names.ts";
import { admittedPodSpec, type PodClasses, priorityOfClass } from "../children/admitted-pod.ts";
import type { JobView } from "../controllers/job-view.ts";
import { MpiError } from "../launch/mpi-error.ts";
import type { GangScheduling } from "./gang-scheduling.ts";

/** Annotation of a job with its Volcano queue, if `schedulingPolicy.queue` does not name one. */
const volcanoQueueAnnotation = "scheduling.volcano.sh/queue-name";

/** A PodGroup of either scheduler, as far as the controller writes it. */
export interface PodGroup {
  readonly apiVersion: string;
  readonly kind: "PodGroup";
  readonly metadata: ObjectMeta;
  readonly spec: {
    readonly minMember: number;
    readonly minResources?: Readonly<Record<string, string | number>>;
    /** Volcano only. */
    readonly queue?: string;
    /** Volcano only. */
    readonly priorityClassName?: string;
    /** scheduler-plugins only. 0: the scheduler's default. */
    readonly scheduleTimeoutSeconds?: number;
  };
}

const types: Readonly<Record<GangScheduling["kind"], ResourceType<PodGroup>>> = {
  volcano: { group: "scheduling.volcano.sh", version: "v1beta1", kind: "PodGroup", plural: "podgroups", scope: "Namespaced" },
  "scheduler-plugins": {
    group: "scheduling.x-k8s.io",
    version: "v1alpha1",
    kind: "PodGroup",
    plural: "podgroups",
    scope: "Namespaced",
  },
};

/** The PodGroup resource of a scheduler. */
export function podGroupType({ kind }: GangScheduling): ResourceType<PodGroup> {
  return types[kind];
}

/** The Jobs whose Pods are in the group, and the classes that the Pods may name. */
export interface GroupedJobs extends PodClasses {
  readonly launcher: JobObject["spec"];
  readonly workers: JobObject["spec"];
}

/**
 * The `spec` of a job's PodGroup, as mpi-operator sets it from `schedulingPolicy`: all Pods by default, with what they request. If
 * `minAvailable` is smaller, the Pods with the higher priority count, which the scheduler places first, and the launcher before workers of
 * the same priority.
 */
export function podGroupSpec(job: JobView, jobs: GroupedJobs, { kind }: GangScheduling): PodGroup["spec"] {
  const policy = job.spec.runPolicy?.schedulingPolicy ?? {};
  const minMember = policy.minAvailable ?? (jobs.workers.completions ?? 1) + 1;
  const requests = requestsOf(jobs, minMember);
  const minResources = policy.minResources === undefined ? requests : quantitiesOf(policy.minResources);
  const requestsNothing = Object.keys(minResources ?? {}).length === 0;
  const spec = { minMember, ...(minResources === undefined || requestsNothing ? {} : { minResources }) };
  if (kind === "scheduler-plugins") return { ...spec, scheduleTimeoutSeconds: policy.scheduleTimeoutSeconds ?? 0 };
  const queue = policy.queue || job.metadata.annotations?.[volcanoQueueAnnotation];
  const priorityClassName =
    policy.priorityClass ||
    job.spec.launcherTemplate?.spec?.priorityClassName ||
    job.spec.workerTemplate?.spec?.priorityClassName;
  return {
    ...spec,
    ...(queue ? { queue } : {}),
    ...(priorityClassName ? { priorityClassName: String(priorityClassName) } : {}),
  };
}

function quantitiesOf(resources: Readonly<Record<string, unknown>>): Record<string, string | number> {
  const quantity = (value: unknown): string | number => (typeof value === "number" ? value : String(value));
  return Object.fromEntries(Object.entries(resources).map(([name, value]) => [name, quantity(value)]));
}

/** What this number of the job's Pods request, with the overhead of their RuntimeClasses. */
function requestsOf(jobs: GroupedJobs, members: number): Record<string, string> {
  const specs = [jobs.launcher, jobs.workers].map(({ template: { spec } }) => spec);
  const [launcherPriority = 0, workerPriority = 0] = specs.map((spec) => priorityOfClass(spec.priorityClassName, jobs));
  const workerCount = jobs.workers.completions ?? 1;
  const workersFirst = workerPriority > launcherPriority;
  const launchers = members > (workersFirst ? workerCount : 0) ? 1 : 0;
  const counts = [launchers, Math.min(members - launchers, workerCount)];
  const total = new Map<string, bigint>();
  for (const [index, spec] of specs.entries())
    for (const [resource, amount] of podRequests({ spec: admittedPodSpec(spec, jobs) })) {
      const sum = (total.get(resource) ?? 0n) + amount * BigInt(counts[index] ?? 0);
      if (sum > 0n) total.set(resource, sum);
    }
  const format = (resource: string, nanos: bigint): string =>
    formatQuantity({ nanos, format: resource.includes("memory") || resource.includes("storage") ? "BinarySI" : "DecimalSI" });
  return Object.fromEntries([...total].map(([resource, amount]) => [resource, format(resource, amount)]));
}

/**
 * Creates the PodGroup of an attempt, or updates it after a change of `schedulingPolicy`.
 *
 * **Errors**: {@link MpiError} `PodGroupsUnknown` if the cluster does not have the kind, `PodGroupTaken` if a PodGroup with this name is
 * not controlled by the job.
 */
export async function applyPodGroup(
  job: JobView,
  { name, spec }: { readonly name: string; readonly spec: PodGroup["spec"] },
  gang: GangScheduling,
  { client, signal }: Pick<ReconcileContext, "client" | "signal">,
  fieldManager: string,
): Promise<void> {
  const { namespace } = job.metadata;
  const key = { namespace, name };
  const metadata = {
    name,
    ...(namespace === undefined ? {} : { namespace }),
    ownerReferences: [controllerReference(job)],
  };
  const type = podGroupType(gang);
  // Get first: a quota or a webhook may reject a create before the API server sees that the group exists.
  const group = await ignoreNotFound(client.get(type, key, { signal }));
  if (group === undefined) {
    try {
      await client.create(type, { metadata, spec }, { fieldManager, signal });
    } catch (error) {
      if (!isUnknownKind(error)) throw error;
      const kind = `${type.plural}.${type.group}/${type.version}`;
      const message = `${kind} not found; install ${gang.kind} or change --gang-scheduling`;
      throw new MpiError("PodGroupsUnknown", message, { cause: error });
    }
    return;
  }
  if (!isControlledBy(group, job)) throw new MpiError("PodGroupTaken", `PodGroup ${name} has another owner`);
  const { resourceVersion } = group.metadata;
  const body = {
    metadata: resourceVersion === undefined ? {} : { resourceVersion },
    spec: replacement(group.spec, spec),
  };
  await client.patch(type, key, { type: "merge", body }, { fieldManager, signal });
}

/** Whether the cluster does not have the kind, as opposed to the namespace. */
function isUnknownKind(error: unknown): boolean {
  return isNotFound(error) && error.status.details?.kind !== "namespaces";
}

/** The merge patch that sets the fields of `after` and removes those that it does not have. Fields that the controller never writes stay. */
function replacement(before: DeepReadonly<PodGroup["spec"]>, after: PodGroup["spec"]): object {
  const removed = (from: object = {}, to: object = {}): Record<string, null> =>
    Object.fromEntries(Object.keys(from).flatMap((name) => (Object.hasOwn(to, name) ? [] : [[name, null] as const])));
  const { minMember: _, minResources, queue, priorityClassName, scheduleTimeoutSeconds } = before;
  const written = Object.fromEntries(
    Object.entries({ minResources, queue, priorityClassName, scheduleTimeoutSeconds }).filter(
      ([, value]) => value !== undefined,
    ),
  );
  if (after.minResources === undefined) return { ...removed(written, after), ...after };
  return {
    ...removed(written, after),
    ...after,
    minResources: { ...removed(minResources, after.minResources), ...after.minResources },
  };
}

/** Deletes the PodGroup of an attempt that has ended or was stopped, so that it reserves nothing. */
export async function removePodGroup(
  job: JobView,
  { podGroup: name }: ChildNames,
  gang: GangScheduling,
  { client, signal }: Pick<ReconcileContext, "client" | "signal">,
): Promise<void> {
  const type = podGroupType(gang);
  const key = { namespace: job.metadata.namespace, name };
  try {
    const group = await client.get(type, key, { signal });
    const { uid } = group.metadata;
    if (uid === undefined || !isControlledBy(group, job)) return;
    await client.delete(type, key, { preconditions: { uid }, signal });
  } catch (error) {
    // A conflict: the group was replaced.
    if (!isNotFound(error) && !isConflict(error)) throw error;
  }
}
