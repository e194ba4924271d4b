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
import { definitionReads, mapKind } from "../watching/resource-mapper.ts";
import type { WebhookAsk, WebhookKnowledge } from "../webhooks/webhook-runner.ts";
import type { ActContext } from "./act-on-resource.ts";
import { createRunningTests, followTargets, type RunningTests } from "./running-tests.ts";
import type { Observation, Target } from "../evaluation/target.ts";
import { type EventClaim, isOver } from "./test-status.ts";

/** What both kinds of tests have. */
export interface TestObject extends KubernetesObject {
  readonly status?: { readonly phase?: string; readonly completionTime?: string };
}

/** What a test is decided with besides itself. */
export interface TestWorld {
  readonly namespace: string;
  readonly observe: (target: Target) => Observation;
  readonly known: (key: string) => WebhookKnowledge | undefined;
  readonly now: number;
}

/** What every decision about a test says. The status is written before anything is done, and events are told after it. */
export interface TestDecision {
  readonly status: DeepReadonly<object>;
  readonly asks: readonly WebhookAsk[];
  readonly events: readonly EventClaim[];
  readonly wakeAtMs?: number;
}

/** What a test acts with: the test as it was written last, and the way to write it again. */
export interface TestActs<T extends TestObject> {
  readonly test: DeepReadonly<T>;
  readonly context: ReconcileContext;
  readonly actContext: ActContext;
  /** Writes the status where it differs, then tells the events. Undefined where the test has moved on. */
  write(
    test: DeepReadonly<T>,
    status: DeepReadonly<NonNullable<T["status"]>>,
    events?: readonly EventClaim[],
  ): Promise<DeepReadonly<T> | undefined>;
}

/** What a kind of tests has of its own. */
export interface TestKind<T extends TestObject, D extends TestDecision> {
  /** Name of its controller. */
  readonly name: string;
  readonly type: ResourceType<T>;
  readonly fieldManager: string;
  readonly finalizer: string;
  /** What a running test looks at. */
  readonly targets: (test: DeepReadonly<T>, namespace: string) => readonly Target[];
  readonly decide: (test: DeepReadonly<T>, world: TestWorld) => D;
  /** Does what was decided and notes what came of it. Answers when to try again, where nobody could be asked. */
  readonly act: (decision: D, acts: TestActs<T>) => Promise<number | undefined>;
  /** Takes back what is not deleted with the test. */
  readonly release?: (test: DeepReadonly<T>, context: ActContext) => Promise<void>;
}

/**
 * The controller of a kind of tests. A reconcile observes, decides, writes the status, and acts, in this order, so that one that is
 * cut off anywhere is taken up by the next.
 */
export function createTestController<T extends TestObject, D extends TestDecision>(kind: TestKind<T, D>): ControllerDefinition {
  const running = createRunningTests();
  return defineController({
    name: kind.name,
    for: kind.type,
    reads: [definitionReads],
    watches: [
      // A kind that comes or goes: tests may be waiting for it, or lose what they look at.
      watchOf(CustomResourceDefinition, (_, { cache }) =>
        cache
          .list(kind.type)
          .filter((test) => !isOver((test as TestObject).status))
          .map(({ metadata }) => ({ namespace: metadata.namespace, name: metadata.name ?? "" })),
      ),
    ],
    triggers: [running.trigger],
    maxConcurrentReconciles: 8,
    reconcile: (request, context) => reconcile(kind, running.current, request, context),
  });
}

async function reconcile<T extends TestObject, D extends TestDecision>(
  kind: TestKind<T, D>,
  tests: RunningTests,
  request: Request,
  context: ReconcileContext,
): Promise<Result | undefined> {
  const { cache, client, clock, events, signal } = context;
  const test = cache.get(kind.type, request);
  const phase = (test as TestObject | undefined)?.status;
  if (test === undefined || isBeingDeleted(test) || isOver(phase)) {
    tests.watches.follow(request, []);
    tests.webhooks.forget(request);
  }
  if (test === undefined) return undefined;
  const { namespace = "" } = request;
  const actContext: ActContext = {
    client,
    signal,
    fieldManager: kind.fieldManager,
    owner: test,
    mapKind: (apiVersion, name) => mapKind(cache, apiVersion, name),
  };
  if (isBeingDeleted(test)) return release(kind, test, actContext);

  const isRunning = phase?.phase !== undefined && !isOver(phase);
  const decision = kind.decide(test, {
    namespace,
    observe: isRunning ? followTargets(tests, cache, request, kind.targets(test, namespace)) : () => ({ kind: "loading" }),
    known: (key) => tests.webhooks.known(request, key),
    now: clock.now(),
  });
  const write: TestActs<T>["write"] = async (before, status, claims = []) => {
    if (jsonEquals(status, before.status ?? {})) return before;
    const { name = "", resourceVersion } = before.metadata;
    const configuration = { metadata: { name, namespace, resourceVersion }, status };
    const written = await ignoreConflict(
      client.applyStatus(kind.type, configuration as unknown as ApplyConfiguration<T>, {
        fieldManager: kind.fieldManager,
        signal,
      }),
    );
    if (written !== undefined) for (const claim of claims) events.event(before, claim);
    return written;
  };
  const written = await write(test, decision.status as DeepReadonly<NonNullable<T["status"]>>, decision.events);
  if (written === undefined) return undefined;
  for (const ask of decision.asks) tests.webhooks.ask(request, ask);
  const retryAfterMs = await kind.act(decision, {
    test: written,
    context,
    actContext: { ...actContext, owner: written },
    write,
  });
  const untilMs = decision.wakeAtMs === undefined ? undefined : Math.max(decision.wakeAtMs - clock.now(), 1);
  const requeueAfterMs = Math.min(retryAfterMs ?? Number.POSITIVE_INFINITY, untilMs ?? Number.POSITIVE_INFINITY);
  return Number.isFinite(requeueAfterMs) ? { requeueAfterMs } : undefined;
}

/** Takes back what the test did to objects that are not its own, and lets it go. What it made goes with it by its owner. */
async function release<T extends TestObject, D extends TestDecision>(
  { type, finalizer, fieldManager, release: takeBack }: TestKind<T, D>,
  test: DeepReadonly<T>,
  context: ActContext,
): Promise<undefined> {
  // Whoever exported a test of the original has its finalizer on it, whatever the test did.
  if (!hasFinalizer(test, finalizer)) return undefined;
  await takeBack?.(test, context);
  const key = { namespace: test.metadata.namespace, name: test.metadata.name ?? "" };
  const body = { metadata: { resourceVersion: test.metadata.resourceVersion, finalizers: withoutFinalizer(test, finalizer) } };
  await ignoreConflict(context.client.patch(type, key, { type: "merge", body }, { fieldManager, signal: context.signal }));
  return undefined;
}
