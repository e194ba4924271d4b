import {
  controllerReference,
  type DeepReadonly,
  isAlreadyExists,
  isControlledBy,
  isNotFound,
  jsonEquals,
  type ObjectKey,
} from "@keelson/api-machinery";
import {
  ConfigMap,
  Job,
  type JobObject,
  NetworkPolicy,
  type PodObject,
  PriorityClass,
  RuntimeClass,
  Secret,
  Service,
} from "@keelson/api-machinery/kinds";
import type { ReconcileContext } from "@keelson/controller";
import { labels, tokenKey } from "../api/names.ts";
import type { JobView } from "../controllers/job-view.ts";
import type { ChildNames } from "./child-names.ts";
import type { GangScheduling } from "../gang/gang-scheduling.ts";
import { applyPodGroup, podGroupSpec } from "../gang/pod-group.ts";
import { hostsData, hostsService, launcherHostName } from "./hosts.ts";
import { launcherJob, type PodTools, podLabels, workersJob } from "./job-templates.ts";
import type { RhinoJobDecision } from "../controllers/observation.ts";

/** Owner of the fields that the controller writes. */
export const fieldManager = "mpi-rhinojob-controller";

/** What children are created with. */
export interface ChildOptions {
  /** How Pods get the launcher and worker programs. Called when a Job is created. */
  readonly tools: () => PodTools;
  /** Generates an unguessable token. */
  readonly randomToken: () => string;
  /** The scheduler that places all Pods of a job together. Default: Pods are scheduled one by one. */
  readonly gang?: GangScheduling;
}

/** Creates the children that a decision requires. Each creation is idempotent. */
export async function createChildren(
  job: JobView,
  names: ChildNames,
  { createLauncher, createWorkers }: RhinoJobDecision,
  context: ReconcileContext,
  options: ChildOptions,
): Promise<void> {
  if (createLauncher) {
    // Create everything that the Pods need first.
    await Promise.all([
      ...(job.spec.hostfile === true || options.gang !== undefined ? [createHosts(job, names, context)] : []),
      createPolicy(job, names, context),
      createToken(job, names, context, options),
      writePodGroup(job, names, context, options),
    ]);
    const spec = launcherJob(job, names, options.tools(), context.clock.now(), options.gang);
    await createJob(job, names.launcher, spec, "launcher", context);
  }
  if (createWorkers) {
    const spec = workersJob(job, names, createWorkers.launcherHost, options.tools(), options.gang);
    await createJob(job, names.workers, spec, "worker", context);
  }
}

/** Creates or updates the PodGroup of an attempt, if a scheduler uses one. */
export async function writePodGroup(
  job: JobView,
  names: ChildNames,
  context: ReconcileContext,
  { tools, gang }: ChildOptions,
): Promise<void> {
  if (gang === undefined) return;
  const jobs = {
    launcher: launcherJob(job, names, tools(), context.clock.now(), gang),
    workers: workersJob(job, names, launcherHostName(job, names), tools(), gang),
  };
  const { cache } = context;
  const classes = { priorityClasses: cache.list(PriorityClass), runtimeClasses: cache.list(RuntimeClass) };
  const group = { name: names.podGroup, spec: podGroupSpec(job, { ...jobs, ...classes }, gang) };
  await applyPodGroup(job, group, gang, context, fieldManager);
}

/**
 * Restricts connections to the job's own Pods, if the cluster's network enforces policies. MPICH's mpiexec port sends the program and
 * its arguments to any client, and a malformed message ends the job.
 */
async function createPolicy(job: JobView, names: ChildNames, { client, signal }: ReconcileContext): Promise<void> {
  const podSelector = { matchLabels: { [labels.uid]: job.metadata.uid ?? "" } };
  await unlessThere(
    client.create(
      NetworkPolicy,
      {
        metadata: { name: names.policy, ...namespaceOf(job), ownerReferences: [controllerReference(job)] },
        spec: { podSelector, policyTypes: ["Ingress"], ingress: [{ from: [{ podSelector }] }] },
      },
      { fieldManager, signal },
    ),
  );
}

/** Creates the headless Service of the hosts, and their ConfigMap if Pods mount it. */
async function createHosts(job: JobView, names: ChildNames, { client, signal }: ReconcileContext): Promise<void> {
  const metadata = { name: names.hosts, ...namespaceOf(job), ownerReferences: [controllerReference(job)] };
  await unlessThere(client.create(Service, { metadata, spec: hostsService(job) }, { fieldManager, signal }));
  if (job.spec.hostfile !== true) return;
  await unlessThere(client.create(ConfigMap, { metadata, data: hostsData(job, names, []) }, { fieldManager, signal }));
}

/** Updates `discover_hosts.sh` when other workers are running. */
export async function writeHosts(
  job: JobView,
  names: ChildNames,
  workerPods: readonly DeepReadonly<PodObject>[],
  { client, signal }: ReconcileContext,
): Promise<void> {
  const key = { namespace: job.metadata.namespace, name: names.hosts };
  const data = hostsData(job, names, workerPods);
  try {
    const config = await client.get(ConfigMap, key, { signal });
    if (!isControlledBy(config, job) || jsonEquals(config.data, data)) return;
    await client.patch(ConfigMap, key, { type: "merge", body: { data } }, { fieldManager, signal });
  } catch (error) {
    if (!isNotFound(error)) throw error;
  }
}

async function createToken(
  job: JobView,
  names: ChildNames,
  { client, signal }: ReconcileContext,
  { randomToken }: ChildOptions,
): Promise<void> {
  await unlessThere(
    client.create(
      Secret,
      {
        metadata: { name: names.secret, ...namespaceOf(job), ownerReferences: [controllerReference(job)] },
        type: "openrhino.org/token",
        immutable: true,
        data: { [tokenKey]: Buffer.from(randomToken()).toString("base64") },
      },
      { fieldManager, signal },
    ),
  );
}

async function createJob(
  job: JobView,
  name: string,
  spec: JobObject["spec"],
  type: "launcher" | "worker",
  { client, signal }: ReconcileContext,
): Promise<void> {
  await unlessThere(
    client.create(
      Job,
      {
        metadata: {
          name,
          ...namespaceOf(job),
          labels: podLabels(job, type),
          ownerReferences: [controllerReference(job)],
        },
        spec,
      },
      { fieldManager, signal },
    ),
  );
}

function namespaceOf(job: JobView): { readonly namespace?: string } {
  return job.metadata.namespace === undefined ? {} : { namespace: job.metadata.namespace };
}

/** Ignores that the object already exists. The next reconcile checks its owner. */
async function unlessThere(creation: Promise<unknown>): Promise<void> {
  try {
    await creation;
  } catch (error) {
    if (!isAlreadyExists(error)) throw error;
  }
}

/** Suspends a Job, which stops its Pods. */
export async function suspend(key: ObjectKey, { client, signal }: ReconcileContext): Promise<void> {
  try {
    await client.patch(Job, key, { type: "merge", body: { spec: { suspend: true } } }, { fieldManager, signal });
  } catch (error) {
    if (!isNotFound(error)) throw error;
  }
}

/** Deletes a Job of the job with its Pods. */
export async function remove(key: ObjectKey, { client, signal }: ReconcileContext): Promise<void> {
  try {
    await client.delete(Job, key, { propagationPolicy: "Background", signal });
  } catch (error) {
    if (!isNotFound(error)) throw error;
  }
}
