import {
  CustomResourceDefinition,
  type DeepReadonly,
  hasFinalizer,
  isBeingDeleted,
  jsonEquals,
  withFinalizer,
  withoutFinalizer,
} from "@keelson/api-machinery";
import { defineController, type ReconcileContext, type Request, type Result, watchOf } from "@keelson/controller";
import {
  IntegrationTest,
  type IntegrationTestSpec,
  type IntegrationTestStatus,
  type StepStatus,
} from "../api/integration-test.ts";
import { fieldManagers, finalizers } from "../api/names.ts";
import { definitionReads, mapKind } from "../watching/resource-mapper.ts";
import { type ActContext, applyResource, deleteResource, releaseResource } from "./act-on-resource.ts";
import { decideIntegrationTest, type EventClaim, frozenSpec, isOver, targetsOf } from "./integration-test-decision.ts";
import { unlessMovedOn } from "./optimistic.ts";
import { createRunningTests, followTargets } from "./running-tests.ts";
import { afterAct } from "./step-decision.ts";

const fieldManager = fieldManagers.integrationTest;
const finalizer = finalizers.integrationTest;
const actsAtOnce = 8;

const running = createRunningTests();

/** Runs IntegrationTests. */
export const integrationTestController = defineController({
  name: "testplane-integrationtest",
  for: IntegrationTest,
  reads: [definitionReads],
  watches: [
    // A kind that comes or goes: tests may be waiting for it, or lose what they look at.
    watchOf(CustomResourceDefinition, (_, { cache }) =>
      cache
        .list(IntegrationTest)
        .filter((test) => !isOver(test.status))
        .map(({ metadata }) => ({ namespace: metadata.namespace, name: metadata.name ?? "" })),
    ),
  ],
  triggers: [running.trigger],
  maxConcurrentReconciles: 8,
  reconcile,
});

async function reconcile(request: Request, context: ReconcileContext): Promise<Result | undefined> {
  const { cache, clock } = context;
  const tests = running.of(cache);
  const test = cache.get(IntegrationTest, request);
  if (test === undefined || isBeingDeleted(test) || isOver(test.status)) {
    tests.watches.follow(request, []);
    tests.webhooks.forget(request);
    if (test === undefined) return undefined;
    if (isBeingDeleted(test)) return release(test, context);
  }
  const { namespace = "" } = request;
  const spec = frozenSpec(test.status, test.spec);
  const isRunning = test.status?.phase !== undefined && !isOver(test.status);
  const observe = isRunning
    ? followTargets(tests, cache, request, targetsOf(spec, namespace))
    : () => ({ kind: "loading" }) as const;
  const decision = decideIntegrationTest({
    spec: test.spec,
    generation: test.metadata.generation ?? 0,
    namespace,
    status: test.status ?? {},
    observe,
    known: (key) => tests.webhooks.known(request, key),
    now: clock.now(),
  });
  const written = await writeStatus(test, decision.status, decision.events, context);
  if (written === undefined) return undefined;
  for (const ask of decision.asks) tests.webhooks.ask(request, ask);
  const retryAfterMs = decision.acts.length === 0 ? undefined : await act(written, spec, decision, context);
  const untilMs = decision.wakeAtMs === undefined ? undefined : Math.max(decision.wakeAtMs - clock.now(), 1);
  const requeueAfterMs = Math.min(retryAfterMs ?? Number.POSITIVE_INFINITY, untilMs ?? Number.POSITIVE_INFINITY);
  return Number.isFinite(requeueAfterMs) ? { requeueAfterMs } : undefined;
}

/** Applies and deletes what the steps want, and notes what came of it. Answers when to try again, where nobody could be asked. */
async function act(
  test: DeepReadonly<IntegrationTest>,
  spec: DeepReadonly<IntegrationTestSpec>,
  { status, acts }: ReturnType<typeof decideIntegrationTest>,
  context: ReconcileContext,
): Promise<number | undefined> {
  const { cache, client, clock, signal } = context;
  const actContext: ActContext = {
    client,
    signal,
    fieldManager,
    owner: test,
    mapKind: (apiVersion, kind) => mapKind(cache, apiVersion, kind),
  };
  const steps = [...(status.steps ?? [])];
  const adopted = [...(status.adopted ?? [])];
  let owner = test;
  if (acts.some(({ index }) => spec.steps[index]?.resource?.adopt) && !hasFinalizer(test, finalizer)) {
    // Before the first change: what is changed without a word of it could not be taken back.
    const body = { metadata: { resourceVersion: test.metadata.resourceVersion, finalizers: withFinalizer(test, finalizer) } };
    const key = { namespace: test.metadata.namespace, name: test.metadata.name ?? "" };
    const marked = await unlessMovedOn(client.patch(IntegrationTest, key, { type: "merge", body }, { fieldManager, signal }));
    if (marked === undefined) return undefined;
    owner = marked;
  }
  let retryAfterMs: number | undefined;
  for (let start = 0; start < acts.length; start += actsAtOnce) {
    await Promise.all(
      acts.slice(start, start + actsAtOnce).map(async ({ index, act }) => {
        const resource = spec.steps[index]?.resource;
        const step = steps[index];
        if (resource?.manifest === undefined || step === undefined) return;
        const outcome =
          act === "Delete"
            ? await deleteResource(resource.manifest, actContext)
            : await applyResource(resource.manifest, resource.adopt ?? false, actContext);
        if (outcome.kind === "unavailable") retryAfterMs = backoffMs(step, clock.now());
        if ("adopted" in outcome && outcome.adopted) {
          const { apiVersion, kind, metadata } = resource.manifest;
          const entry = { apiVersion: String(apiVersion), kind: String(kind), name: (metadata as { name: string }).name };
          if (!adopted.some((each) => jsonEquals(each, entry))) adopted.push(entry);
        }
        steps[index] = afterAct(step, outcome, clock.now());
      }),
    );
  }
  const after = { ...status, steps, ...(adopted.length === 0 ? {} : { adopted }) };
  await writeStatus(owner, after, [], context);
  return retryAfterMs;
}

/** Grows with the time that the step has been at it already: exponential, without a count to keep. */
const backoffMs = (step: DeepReadonly<StepStatus>, now: number): number =>
  Math.min(Math.max(now - Date.parse(step.startedAt ?? ""), 500), 10_000);

/** Writes the status where it differs, then tells the events. Undefined where the test has moved on. */
async function writeStatus(
  test: DeepReadonly<IntegrationTest>,
  status: DeepReadonly<IntegrationTestStatus>,
  claims: readonly EventClaim[],
  { client, events, signal }: ReconcileContext,
): Promise<DeepReadonly<IntegrationTest> | undefined> {
  if (jsonEquals(status, test.status ?? {})) return test;
  const { name = "", namespace, resourceVersion } = test.metadata;
  const written = await unlessMovedOn(
    client.applyStatus(
      IntegrationTest,
      { metadata: { name, namespace, resourceVersion }, status } as Parameters<typeof client.applyStatus<IntegrationTest>>[1],
      { fieldManager, signal },
    ),
  );
  if (written !== undefined) for (const claim of claims) events.event(test, claim);
  return written;
}

/** Takes back what the test added to objects that are not its own, and lets it go. What it made goes with it by its owner. */
async function release(test: DeepReadonly<IntegrationTest>, context: ReconcileContext): Promise<undefined> {
  if (!hasFinalizer(test, finalizer)) return undefined;
  const { cache, client, signal } = context;
  for (const adopted of test.status?.adopted ?? []) {
    await releaseResource(adopted, {
      client,
      signal,
      fieldManager,
      owner: test,
      mapKind: (apiVersion, kind) => mapKind(cache, apiVersion, kind),
    });
  }
  const key = { namespace: test.metadata.namespace, name: test.metadata.name ?? "" };
  const body = { metadata: { resourceVersion: test.metadata.resourceVersion, finalizers: withoutFinalizer(test, finalizer) } };
  await unlessMovedOn(client.patch(IntegrationTest, key, { type: "merge", body }, { fieldManager, signal }));
  return undefined;
}
