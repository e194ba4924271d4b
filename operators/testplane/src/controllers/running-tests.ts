import { type DeepReadonly, isStatusError, type ResourceType } from "@keelson/api-machinery";
import type { Cache, Request, Trigger } from "@keelson/controller";
import type { TestCluster } from "../api/test-cluster.ts";
import type { ClusterConnection } from "../clusters/cluster-connection.ts";
import { ClusterConnections, type KubeconfigText } from "../clusters/cluster-connections.ts";
import { kubeconfigOf, secretTarget } from "../clusters/kubeconfig-secret.ts";
import { mapKind } from "../watching/resource-mapper.ts";
import { type Reader, ReadPermissions } from "../watching/read-permissions.ts";
import { type WatchedObject, type WatchTarget, type WatchView, WatchSet } from "../watching/watch-set.ts";
import { WebhookRunner } from "../webhooks/webhook-runner.ts";
import { TestClocks } from "./test-clocks.ts";
import { isTarget, type Observation, type Target } from "../evaluation/target.ts";
import { PodInterest } from "../evaluation/workload-pods.ts";

/** Resources shared by the tests of one controller while it runs: dynamic watches, other clusters, read permissions, webhook calls and times. */
export interface RunningTests {
  readonly watches: WatchSet;
  readonly clusters: ClusterConnections;
  readonly readPermissions: ReadPermissions;
  readonly webhooks: WebhookRunner;
  readonly clocks: TestClocks;
}

/** The {@link RunningTests} of one controller. */
export interface RunningTestsOf {
  /** Starts and stops the resources with the controller. */
  readonly trigger: Trigger;
  /** **Errors**: throws until the trigger has started. */
  readonly current: RunningTests;
}

/** Creates a {@link RunningTestsOf} for one controller. */
export function createRunningTests(fieldManager: string): RunningTestsOf {
  let running: RunningTests | undefined;
  return {
    trigger: {
      start({ client, clock, log, enqueue }) {
        const tests: RunningTests = {
          watches: new WatchSet({ client, clock, log, wake: enqueue }),
          clusters: new ClusterConnections({ fieldManager, clock, log, wake: enqueue }),
          readPermissions: new ReadPermissions({ client, clock }),
          webhooks: new WebhookRunner({ clock, wake: enqueue }),
          clocks: new TestClocks(clock),
        };
        running = tests;
        return () => {
          tests.watches.stop();
          tests.clusters.stop();
          tests.webhooks.stop();
        };
      },
    },
    get current() {
      if (running === undefined) throw new TypeError("the controller's trigger has not been started");
      return running;
    },
  };
}

/** A test that follows its targets. */
export interface FollowingTest {
  readonly request: Request;
  readonly reader: Reader;
  readonly targets: readonly Target[];
  /** The other clusters of the test. */
  readonly clusters: readonly DeepReadonly<TestCluster>[];
}

/** What a running test sees of its clusters. */
export interface FollowedTargets {
  readonly observe: (target: Target) => Observation;
  /** The connection to a cluster of the test, or why there is none. */
  readonly cluster: (name: string) => ClusterConnection | Error;
  /** Waits until the watches have seen the changes of these objects, for a short time. Resolves to whether they have. */
  readonly haveSeen: (changed: readonly ChangedObject[]) => Promise<boolean>;
}

/** An object that a test has changed. */
export interface ChangedObject {
  readonly target: Target;
  readonly resourceVersion: string;
}

/** How long a test waits for the event of its own change. Later, the event wakes the test. */
const ownEventMs = 25;

/**
 * Watches the targets of a test that it may read, and connects to its other clusters. **Errors**: rejects if the API server of the test
 * cannot be reached.
 */
export async function followTargets(
  tests: RunningTests,
  cache: Cache,
  test: FollowingTest,
  signal: AbortSignal,
): Promise<FollowedTargets> {
  const { request, targets, clusters } = test;
  const own = targets.filter(({ cluster }) => cluster === undefined);
  const home = { watches: tests.watches, mapKind: (apiVersion: string, kind: string) => mapKind(cache, apiVersion, kind) };
  const secrets = clusters.map(({ kubeconfigSecret }) => secretTarget(kubeconfigSecret.name, request.namespace ?? ""));
  const observeHome = await follow(home, { ...test, targets: [...own, ...secrets] }, tests.readPermissions, signal);
  const connections = await connect(tests, test, observeHome, signal);
  const observers = new Map<string, (target: Target) => Observation>();
  for (const [name, connection] of connections) {
    if (connection instanceof Error) continue;
    const remote = targets.filter(({ cluster }) => cluster === name);
    observers.set(name, await follow(connection, { ...test, targets: remote }, undefined, signal));
  }
  const cluster = (name: string): ClusterConnection | Error => connections.get(name) ?? new ClusterError(name, "not found");
  return {
    cluster,
    haveSeen: async (changed) => {
      const seen = await Promise.all(
        changed.map(async ({ target, resourceVersion }) => {
          const type = target.cluster === undefined ? home.mapKind(target.apiVersion, target.kind) : undefined;
          if (type === undefined) return false;
          const watched = { type, namespace: namespaceOf(type, target) };
          return tests.watches.whenSeen(watched, resourceVersion, { withinMs: ownEventMs, signal });
        }),
      );
      return seen.every(Boolean);
    },
    observe: (target) => {
      if (target.cluster === undefined) return observeHome(target);
      const connection = cluster(target.cluster);
      if (connection instanceof Error) return { kind: "loading", error: connection.message };
      return observers.get(target.cluster)?.(target) ?? { kind: "loading" };
    },
  };
}

/** Connects a test to its other clusters. */
async function connect(
  { clusters: connections, readPermissions }: RunningTests,
  { request, reader, clusters }: FollowingTest,
  observe: (target: Target) => Observation,
  signal: AbortSignal,
): Promise<ReadonlyMap<string, ClusterConnection | Error>> {
  const found = new Map<string, ClusterConnection | Error>();
  const kubeconfigs: (KubeconfigText & { readonly cluster: string })[] = [];
  for (const { name, kubeconfigSecret } of clusters) {
    const target = secretTarget(kubeconfigSecret.name, request.namespace ?? "");
    const denied = await readPermissions.deniedSecret(reader, kubeconfigSecret.name, signal);
    const kubeconfig = denied ?? kubeconfigOf(observe(target), target, kubeconfigSecret.key);
    if (typeof kubeconfig === "string") found.set(name, new ClusterError(name, kubeconfig));
    else kubeconfigs.push({ ...kubeconfig, cluster: name });
  }
  const opened = await connections.follow(request, kubeconfigs);
  for (const [index, { cluster }] of kubeconfigs.entries()) {
    const connection = opened[index];
    if (connection === undefined) continue;
    found.set(cluster, connection instanceof Error ? new ClusterError(cluster, connection.message, connection) : connection);
  }
  return found;
}

/** The cluster of a test cannot be used. */
class ClusterError extends Error {
  override readonly name = "ClusterError";
  readonly code = "Cluster";

  constructor(cluster: string, problem: string, cause?: unknown) {
    super(`cluster ${cluster}: ${problem}`, cause === undefined ? {} : { cause });
  }
}

/** Watches targets in one cluster. Without `readPermissions`, the credentials of its client decide what is read. */
async function follow(
  { watches, mapKind: typeOf }: Pick<ClusterConnection, "watches" | "mapKind">,
  { request, reader, targets }: FollowingTest,
  readPermissions: ReadPermissions | undefined,
  signal: AbortSignal,
): Promise<(target: Target) => Observation> {
  const watched: WatchTarget[] = [];
  const refusals = new Map<string, string>();
  for (const target of targets) {
    const type = typeOf(target.apiVersion, target.kind);
    if (type === undefined) continue;
    const concerns = target.name === undefined ? concernOf(watches, typeOf, target) : undefined;
    const watch = { type, namespace: namespaceOf(type, target), name: target.name, concerns };
    const denied = await readPermissions?.denied(reader, watch, signal);
    if (denied === undefined) watched.push(watch);
    else refusals.set(refusalKey(type, target), denied);
  }
  watches.follow(request, watched);
  return (target) => {
    const type = typeOf(target.apiVersion, target.kind);
    if (type === undefined) return { kind: "unknown-kind" };
    const refusal = refusals.get(refusalKey(type, target));
    if (refusal !== undefined) return { kind: "loading", error: refusal, isForbidden: true };
    const view = watches.view(type, namespaceOf(type, target));
    const observation = observationOf(view, target);
    const { versionsFor, name } = target;
    if (observation.kind !== "known" || versionsFor === undefined || name === undefined) return observation;
    return {
      ...observation,
      versions: view?.takeVersions(`${request.namespace ?? ""}/${request.name}:${versionsFor}`, name) ?? [],
    };
  };
}

/** What a watch knows about a target. */
function observationOf(view: WatchView | undefined, target: Target): Observation {
  if (view === undefined) return { kind: "loading" };
  const { error } = view;
  if (!view.isListed) {
    if (error === undefined) return { kind: "loading" };
    return { kind: "loading", error: errorMessage(error), ...(isStatusError(error, "Forbidden") ? { isForbidden: true } : {}) };
  }
  const named = target.name === undefined ? undefined : view.get(target.name);
  const objects = target.name === undefined ? view.list() : named === undefined ? [] : [named];
  return {
    kind: "known",
    objects: objects.filter(({ metadata }) => isTarget(target, metadata)),
    hasSeen: (resourceVersion) => view.hasSeen(resourceVersion),
    unbrokenMs: view.unbrokenMs,
    ...(error === undefined ? {} : { error: errorMessage(error) }),
  };
}

/** Which changes of the objects of a target without a name concern its test. Those of Pods only matter to their own workload. */
function concernOf(
  watches: ClusterConnection["watches"],
  typeOf: ClusterConnection["mapKind"],
  target: Target,
): (object: WatchedObject) => boolean {
  const { workload } = target;
  if (workload === undefined) return ({ metadata }) => isTarget(target, metadata);
  const interest = new PodInterest();
  return (pod) => {
    const type = typeOf(workload.apiVersion, workload.kind);
    const observed = type === undefined ? undefined : observationOf(watches.view(type, namespaceOf(type, workload)), workload);
    // A workload that is observed later wakes the test itself.
    return observed?.kind === "known" && observed.objects.some((owner) => interest.maySelect(owner, pod));
  };
}

const namespaceOf = (type: ResourceType, target: Target): string | undefined =>
  type.scope === "Cluster" ? undefined : target.namespace;

const refusalKey = (type: ResourceType, target: Target): string =>
  JSON.stringify([type.group, type.plural, namespaceOf(type, target), target.name]);

/** Human-readable message of an error. */
export function errorMessage(error: unknown): string {
  if (isStatusError(error)) return `${error.reason || "error"}: ${error.message}`;
  return error instanceof Error ? error.message : String(error);
}
