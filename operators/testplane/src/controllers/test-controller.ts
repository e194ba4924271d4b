import {
  type DeepReadonly,
  hasFinalizer,
  isBeingDeleted,
  jsonEquals,
  type KubernetesObject,
  type ResourceType,
  withoutFinalizer,
} from "@keelson/api-machinery";
import { CustomResourceDefinition } from "@keelson/api-machinery/kinds";
import {
  type ControllerDefinition,
  defineController,
  type ReconcileContext,
  type Request,
  type Result,
  ignoreConflict,
  watchOf,
} from "@keelson/controller";
import type { ApplyConfiguration } from "@keelson/client";
import type { TestCluster } from "../api/test-cluster.ts";
import type { ClusterConnection } from "../clusters/cluster-connection.ts";
import { definitionReads, mapKind } from "../watching/resource-mapper.ts";
import type { Reader } from "../watching/read-permissions.ts";
import type { WebhookCall, WebhookState } from "../webhooks/webhook-runner.ts";
import { foldEvents } from "./fold-events.ts";
import type { ActionContext } from "./resource-actions.ts";
import {
  type ChangedObject,
  createRunningTests,
  type FollowedTargets,
  followTargets,
  type RunningTests,
} from "./running-tests.ts";
import type { Observation, Target } from "../evaluation/target.ts";
import { type EventDraft, isFinished } from "./test-status.ts";

/** A test of either kind. */
export interface TestObject extends KubernetesObject {
  readonly status?: { readonly phase?: string; readonly completionTime?: string };
}

/** Inputs of a decision, except the test itself. */
export interface Observations {
  readonly namespace: string;
  readonly observe: (target: Target) => Observation;
  readonly webhookState: (key: string) => WebhookState | undefined;
  readonly now: number;
  readonly wallOffsetMs: number;
}

/** A decision about a test. The status is written before actions are performed; events are recorded after the write. */
export interface TestDecision {
  readonly status: DeepReadonly<object>;
  readonly webhookCalls: readonly WebhookCall[];
  readonly events: readonly EventDraft[];
  readonly wakeAtMs?: number;
  /** Whether the status is that of a test that starts, so that its first steps can be decided before it is written. */
  readonly isStart?: boolean;
}

/** Inputs of a test's actions: the test as last written, and a function that writes its status. */
export interface ActionScope<T extends TestObject, D extends TestDecision = TestDecision> {
  readonly test: DeepReadonly<T>;
  readonly context: ReconcileContext;
  /** Time of the test. */
  readonly now: () => number;
  readonly actionContext: ActionContext;
  /** The connection to another cluster of the test, or why there is none. */
  readonly cluster: (name: string) => ClusterConnection | Error;
  /**
   * Decides about the status after an action, before it is written, so that one write records both. Waits briefly for the watches to see
   * the changed objects. Resolves to undefined if they do not.
   */
  readonly decideNext: (
    test: DeepReadonly<T>,
    status: DeepReadonly<NonNullable<T["status"]>>,
    changed: readonly ChangedObject[],
  ) => Promise<D | undefined>;
  /** Writes the status if it differs, then records the events. Resolves to undefined on a conflict. */
  write(
    test: DeepReadonly<T>,
    status: DeepReadonly<NonNullable<T["status"]>>,
    events?: readonly EventDraft[],
  ): Promise<DeepReadonly<T> | undefined>;
}

/** What distinguishes a kind of test. */
export interface TestKind<T extends TestObject, D extends TestDecision> {
  /** Name of the controller. */
  readonly name: string;
  readonly type: ResourceType<T>;
  readonly fieldManager: string;
  readonly finalizer: string;
  /** Targets that a running test watches. */
  readonly targets: (test: DeepReadonly<T>, namespace: string) => readonly Target[];
  /** Whose permissions a running test has when it reads outside its namespace. Default: those of a test without a ServiceAccount. */
  readonly reader?: (test: DeepReadonly<T>) => Omit<Reader, "namespace">;
  readonly decide: (test: DeepReadonly<T>, world: Observations) => D;
  /** Performs the decided actions and writes their outcome. Resolves to a retry delay if the API was unavailable. */
  readonly act: (decision: D, scope: ActionScope<T, D>) => Promise<number | undefined>;
  /** Other clusters of a running test. Default: none. */
  readonly clusters?: (test: DeepReadonly<T>) => readonly DeepReadonly<TestCluster>[];
  /** Reverts changes that are not deleted with the test. */
  readonly release?: (test: DeepReadonly<T>, context: ActionContext, reconcile: ReconcileContext) => Promise<void>;
}

/**
 * Creates the controller of a kind of test. A reconcile observes, decides, writes the status and acts, in this order; an
 * interrupted reconcile is completed by the next one.
 */
export function createTestController<T extends TestObject, D extends TestDecision>(kind: TestKind<T, D>): ControllerDefinition {
  const running = createRunningTests(kind.fieldManager);
  return defineController({
    name: kind.name,
    for: kind.type,
    reads: [definitionReads],
    watches: [
      // Running tests may wait for a kind, or watch one that is removed.
      watchOf(CustomResourceDefinition, (_, { cache }) =>
        cache
          .list(kind.type)
          .filter((test) => !isFinished((test as TestObject).status))
          .map(({ metadata }) => ({ namespace: metadata.namespace, name: metadata.name ?? "" })),
      ),
    ],
    triggers: [running.trigger],
    maxConcurrentReconciles: 32,
    reconcile: (request, context) => reconcile(kind, running.current, request, context),
  });
}

async function reconcile<T extends TestObject, D extends TestDecision>(
  kind: TestKind<T, D>,
  tests: RunningTests,
  request: Request,
  context: ReconcileContext,
): Promise<Result | undefined> {
  const { cache, client, signal } = context;
  const test = cache.get(kind.type, request);
  const current = (test as TestObject | undefined)?.status;
  if (test === undefined || isBeingDeleted(test) || isFinished(current)) {
    tests.watches.follow(request, []);
    void tests.clusters.follow(request, []);
    tests.webhooks.forget(request);
  }
  if (test === undefined) {
    tests.clocks.forget(request);
    return undefined;
  }
  const { namespace = "" } = request;
  const { uid } = test.metadata;
  const now = (): number => tests.clocks.time(request, uid).now;
  const actionContext: ActionContext = {
    client,
    signal,
    fieldManager: kind.fieldManager,
    owner: test,
    mapKind: (apiVersion, name) => mapKind(cache, apiVersion, name),
  };
  if (isBeingDeleted(test)) return release(kind, test, actionContext, context);

  const turn = await observe(kind, tests, { request, test, context });
  const { decision } = turn;
  const write = writerOf(kind, context, namespace);
  const written = await write(test, decision.status as DeepReadonly<NonNullable<T["status"]>>, decision.events);
  if (written === undefined) return undefined;
  for (const call of decision.webhookCalls) tests.webhooks.call(request, call);
  const retryAfterMs = await kind.act(decision, {
    test: written,
    context,
    now,
    actionContext: { ...actionContext, owner: written },
    cluster: (name) => turn.followed?.cluster(name) ?? new Error("the test has not started"),
    decideNext: async (owner, status, changed) =>
      (await turn.followed?.haveSeen(changed)) ? turn.decide(withStatus<T>(owner, status)) : undefined,
    write,
  });
  const untilMs = decision.wakeAtMs === undefined ? undefined : Math.max(decision.wakeAtMs - now(), 1);
  const requeueAfterMs = Math.min(retryAfterMs ?? Number.POSITIVE_INFINITY, untilMs ?? Number.POSITIVE_INFINITY);
  return Number.isFinite(requeueAfterMs) ? { requeueAfterMs } : undefined;
}

/** A decision about a test, with what it was made from. */
interface TestTurn<T, D> {
  readonly decision: D;
  /** Absent if the test is not running. */
  readonly followed: FollowedTargets | undefined;
  /** Decides about the test with another status. */
  readonly decide: (test: DeepReadonly<T>) => D;
}

/** Observes the targets of a test and decides about it. A test that starts follows its targets immediately. */
async function observe<T extends TestObject, D extends TestDecision>(
  kind: TestKind<T, D>,
  tests: RunningTests,
  { request, test, context }: { readonly request: Request; readonly test: DeepReadonly<T>; readonly context: ReconcileContext },
): Promise<TestTurn<T, D>> {
  const { namespace = "" } = request;
  const { phase } = (test as TestObject).status ?? {};
  const decide = (running: DeepReadonly<T>, targets: FollowedTargets | undefined): D =>
    kind.decide(running, {
      namespace,
      observe: targets?.observe ?? (() => ({ kind: "loading" })),
      webhookState: (key) => tests.webhooks.state(request, key),
      ...tests.clocks.time(request, test.metadata.uid ?? ""),
    });
  const isRunning = phase !== undefined && !isFinished({ phase });
  const start = isRunning ? undefined : decide(test, undefined);
  if (start !== undefined && start.isStart !== true)
    return { decision: start, followed: undefined, decide: (other) => decide(other, undefined) };
  const running = start === undefined ? test : withStatus<T>(test, start.status);
  const reader = { namespace, ...kind.reader?.(running) };
  const following = { request, reader, targets: kind.targets(running, namespace), clusters: kind.clusters?.(running) ?? [] };
  const followed = await followTargets(tests, context.cache, following, context.signal);
  const decision = decide(running, followed);
  const events = [...(start?.events ?? []), ...decision.events];
  return { decision: { ...decision, events }, followed, decide: (other) => decide(other, followed) };
}

const withStatus = <T extends TestObject>(test: DeepReadonly<T>, status: DeepReadonly<object>): DeepReadonly<T> =>
  // A status of the kind is decided by the kind itself.
  ({ ...test, status }) as DeepReadonly<T>;

/** A function that writes the status of tests if it differs, then records their events. */
function writerOf<T extends TestObject, D extends TestDecision>(
  { type, fieldManager }: TestKind<T, D>,
  { client, events, signal }: ReconcileContext,
  namespace: string,
): ActionScope<T>["write"] {
  return async (before, status, eventDrafts = []) => {
    if (jsonEquals(status, before.status ?? {})) return before;
    const { name = "", resourceVersion } = before.metadata;
    const configuration = { metadata: { name, namespace, resourceVersion }, status };
    const written = await ignoreConflict(
      client.applyStatus(type, configuration as unknown as ApplyConfiguration<T>, { fieldManager, signal }),
    );
    if (written !== undefined) for (const draft of foldEvents(eventDrafts)) events.event(before, draft);
    return written;
  };
}

/** Reverts the test's changes to adopted objects and removes the finalizer. Owned objects are garbage-collected. */
async function release<T extends TestObject, D extends TestDecision>(
  { type, finalizer, fieldManager, release: revert }: TestKind<T, D>,
  test: DeepReadonly<T>,
  context: ActionContext,
  reconcile: ReconcileContext,
): Promise<undefined> {
  // Tests exported from the original TestPlane carry its finalizer even if they adopted nothing.
  if (!hasFinalizer(test, finalizer)) return undefined;
  await revert?.(test, context, reconcile);
  const key = { namespace: test.metadata.namespace, name: test.metadata.name ?? "" };
  const body = { metadata: { resourceVersion: test.metadata.resourceVersion, finalizers: withoutFinalizer(test, finalizer) } };
  await ignoreConflict(context.client.patch(type, key, { type: "merge", body }, { fieldManager, signal: context.signal }));
  return undefined;
}
