import { ignoreNotFound, isMissingKind, type KubernetesObject, type ResourceType } from "@keelson/api-machinery";
import { Deployment, Lease, Namespace, Node } from "@keelson/api-machinery/kinds";
import { type Clock, parseTime } from "@keelson/api-machinery/time";
import type { Client } from "@keelson/client";
import { leaseNameOf, type Operator } from "@keelson/operator";
import { objectName } from "../install/objects/install-object.ts";
import type { UpState } from "../local/up-state.ts";
import { objectHealth } from "./object-health.ts";
import { byUrgency, isWorkload, type WorkloadStatus, workloadStatus } from "./workload.ts";

/** State of a part of Keelson. */
export interface ComponentStatus {
  readonly name: string;
  readonly state: "ready" | "not ready" | "not installed";
  /** Where it runs, or why it is not ready. */
  readonly detail: string;
}

/** Objects of one kind. */
export interface KindStatus {
  readonly family: string;
  readonly kind: string;
  readonly total: number;
  /** Number of objects by state, most frequent first. */
  readonly states: Readonly<Record<string, number>>;
}

/** An object that needs attention. */
export interface ProblemStatus {
  readonly kind: string;
  /** Absent for cluster-scoped kinds. */
  readonly namespace?: string;
  readonly name: string;
  readonly state: string;
  readonly problem: string;
}

/** What `keelson status` shows. */
export interface KeelsonStatus {
  readonly components: readonly ComponentStatus[];
  readonly kinds: readonly KindStatus[];
  /** The objects that users created, the most urgent first. */
  readonly workloads: readonly WorkloadStatus[];
  /** All objects that need attention, including those that other objects own. */
  readonly problems: readonly ProblemStatus[];
}

/** Options of {@link collectStatus}. */
export interface StatusOptions {
  readonly client: Client;
  readonly clock: Clock;
  readonly operators: readonly Operator[];
  /** Namespace of the operators on a cluster. */
  readonly namespace: string;
  /** The `keelson up` on this machine, if the client is connected to it. */
  readonly local?: Partial<UpState> & { readonly pid: number };
  /** Asks a probe of `keelson up`. Resolves to why it is not ready; undefined if it is. */
  readonly probe: (url: string) => Promise<string | undefined>;
  readonly signal: AbortSignal;
}

/**
 * Reads the state of all components and of the users' objects. A component that cannot be reached is reported, not thrown; without the
 * API server, nothing else is known.
 */
export async function collectStatus(options: StatusOptions): Promise<KeelsonStatus> {
  const { client, signal } = options;
  const apiServer = await statusOf("apiserver", async () => {
    await client.get(Namespace, { name: "kube-system" }, { signal });
    return options.local?.endpoints?.["apiserver"] ?? "";
  });
  signal.throwIfAborted();
  if (apiServer.state !== "ready") return { components: [apiServer], kinds: [], workloads: [], problems: [] };
  const nodes = await nodeStatuses(options);
  const operators =
    options.local === undefined ? await installedStatuses(options) : await localStatuses(options, options.local);
  return { components: [apiServer, ...nodes, ...operators], ...(await objectStatuses(options)) };
}

async function nodeStatuses({ client, signal }: StatusOptions): Promise<readonly ComponentStatus[]> {
  const { items } = await client.list(Node, { signal });
  return items.map(({ metadata, status }) => {
    const ready = status?.conditions?.find(({ type }) => type === "Ready");
    const isReady = ready?.status === "True";
    const detail = isReady
      ? `kubelet ${status?.nodeInfo?.kubeletVersion ?? ""}`.trim()
      : (ready?.message ?? "has not reported");
    return { name: `node/${metadata.name ?? ""}`, state: isReady ? "ready" : "not ready", detail };
  });
}

/** The operators of `keelson up` run in one process. */
async function localStatuses(
  { operators, probe }: StatusOptions,
  local: Partial<UpState>,
): Promise<readonly ComponentStatus[]> {
  const { components, endpoints, operators: running = [] } = local;
  if (components === undefined) return [{ name: "controllers", state: "not ready", detail: "still starting" }];
  const metrics = endpoints?.["metrics"];
  const problem = metrics === undefined ? undefined : await probe(`${metrics}/readyz?verbose`);
  return operators.map(({ name }) => {
    if (!running.includes(name)) return { name, state: "not installed", detail: "not selected by --only of keelson up" };
    const descriptions = components.filter((component) => component.name === name).map(({ description }) => description);
    return { name, state: problem === undefined ? "ready" : "not ready", detail: problem ?? descriptions.join("; ") };
  });
}

/** The operators of a cluster are Deployments with a Lease each. */
async function installedStatuses({
  client,
  clock,
  operators,
  namespace,
  signal,
}: StatusOptions): Promise<readonly ComponentStatus[]> {
  return Promise.all(
    operators.map(async (operator): Promise<ComponentStatus> => {
      const { name } = operator;
      const deployment = await ignoreNotFound(client.get(Deployment, { namespace, name: objectName(name) }, { signal }));
      const lease = await ignoreNotFound(client.get(Lease, { namespace, name: leaseNameOf(operator) }, { signal }));
      if (deployment === undefined && lease === undefined) {
        return { name, state: "not installed", detail: `keelson install --only ${name} -n ${namespace}` };
      }
      const { holderIdentity = "", renewTime = "", leaseDurationSeconds = 15 } = lease?.spec ?? {};
      const ageMs = clock.now() - (parseTime(renewTime) ?? 0);
      if (holderIdentity === "") return { name, state: "not ready", detail: "no replica leads" };
      if (ageMs > leaseDurationSeconds * 1_000) {
        const detail = `the leader ${holderIdentity} has not renewed its lease for ${Math.round(ageMs / 1_000)} s`;
        return { name, state: "not ready", detail };
      }
      const replicas =
        deployment === undefined
          ? ""
          : `${deployment.status?.readyReplicas ?? 0} of ${deployment.spec.replicas ?? 1} replicas, `;
      return { name, state: "ready", detail: `${replicas}leader ${holderIdentity}` };
    }),
  );
}

async function objectStatuses({
  client,
  clock,
  operators,
  signal,
}: StatusOptions): Promise<Pick<KeelsonStatus, "kinds" | "workloads" | "problems">> {
  const kinds: KindStatus[] = [];
  const workloads: WorkloadStatus[] = [];
  const problems: ProblemStatus[] = [];
  for (const { name: family, resources } of operators) {
    for (const type of resources) {
      const objects = await listOrEmpty(client, type, signal);
      const states = new Map<string, number>();
      for (const object of objects) {
        if (isWorkload(object)) workloads.push(workloadStatus({ ...object, kind: type.kind }, clock.now()));
        const { state, problem } = objectHealth(object);
        states.set(state, (states.get(state) ?? 0) + 1);
        const { namespace, name = "" } = object.metadata;
        if (problem !== undefined)
          problems.push({ kind: type.kind, ...(namespace === undefined ? {} : { namespace }), name, state, problem });
      }
      const sorted = [...states].sort(([, a], [, b]) => b - a);
      if (objects.length > 0)
        kinds.push({ family, kind: type.kind, total: objects.length, states: Object.fromEntries(sorted) });
    }
  }
  return { kinds, workloads: workloads.sort(byUrgency), problems };
}

/** All objects of a kind, or those of a namespace; none if the kind is not served. */
export async function listOrEmpty(
  client: Client,
  type: ResourceType,
  signal: AbortSignal,
  within: { readonly namespace?: string } = {},
): Promise<readonly KubernetesObject[]> {
  try {
    return (await client.list(type, { ...within, signal })).items as readonly KubernetesObject[];
  } catch (error) {
    if (isMissingKind(error)) return [];
    throw error;
  }
}

async function statusOf(name: string, check: () => Promise<string>): Promise<ComponentStatus> {
  try {
    return { name, state: "ready", detail: await check() };
  } catch (error) {
    return { name, state: "not ready", detail: error instanceof Error ? error.message : String(error) };
  }
}
