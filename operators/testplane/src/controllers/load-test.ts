import {
  CustomResourceDefinition,
  type DeepReadonly,
  hasFinalizer,
  isBeingDeleted,
  jsonEquals,
  withoutFinalizer,
} from "@keelson/api-machinery";
import { defineController, type ReconcileContext, type Request, type Result, watchOf } from "@keelson/controller";
import { LoadTest, type LoadTestSpec, type LoadTestStatus } from "../api/load-test.ts";
import { fieldManagers, finalizers } from "../api/names.ts";
import { definitionReads, mapKind } from "../watching/resource-mapper.ts";
import { type ActContext, type ActResult, applyResource, deleteResource } from "./act-on-resource.ts";
import { type EventClaim, isOver } from "./integration-test-decision.ts";
import { decideLoadTest, failTest, frozenLoadTest, type LoadTestAct, withConditions } from "./load-test-decision.ts";
import { expandManifest, injectValues } from "./manifest.ts";
import { unlessMovedOn } from "./optimistic.ts";
import { createRunningTests, followTargets } from "./running-tests.ts";
import { targetOf } from "./target.ts";

const fieldManager = fieldManagers.loadTest;
const retryMs = 2_000;

const running = createRunningTests();

/** Runs LoadTests. */
export const loadTestController = defineController({
  name: "testplane-loadtest",
  for: LoadTest,
  reads: [definitionReads],
  watches: [
    watchOf(CustomResourceDefinition, (_, { cache }) =>
      cache
        .list(LoadTest)
        .filter((test) => !isOver(test.status))
        .map(({ metadata }) => ({ namespace: metadata.namespace, name: metadata.name ?? "" })),
    ),
  ],
  triggers: [running.trigger],
  maxConcurrentReconciles: 8,
  reconcile,
});

async function reconcile(request: Request, context: ReconcileContext): Promise<Result | undefined> {
  const { cache, client, clock, signal } = context;
  const tests = running.of(cache);
  const test = cache.get(LoadTest, request);
  if (test === undefined || isBeingDeleted(test) || isOver(test.status)) {
    tests.watches.follow(request, []);
    tests.webhooks.forget(request);
    if (test === undefined) return undefined;
    if (isBeingDeleted(test)) {
      // Whoever exported a test of the original has its finalizer on it; what was made goes by its owner.
      if (!hasFinalizer(test, finalizers.loadTest)) return undefined;
      const body = {
        metadata: { resourceVersion: test.metadata.resourceVersion, finalizers: withoutFinalizer(test, finalizers.loadTest) },
      };
      await unlessMovedOn(client.patch(LoadTest, request, { type: "merge", body }, { fieldManager, signal }));
      return undefined;
    }
  }
  const { namespace = "" } = request;
  const spec = frozenLoadTest(test.status, test.spec);
  const isRunning = test.status?.phase !== undefined && !isOver(test.status);
  const observe = isRunning
    ? followTargets(tests, cache, request, [targetOf(spec.target.resource, namespace)])
    : () => ({ kind: "loading" }) as const;
  const decision = decideLoadTest({
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
  const retryAfterMs =
    decision.act === undefined ? undefined : await act(decision.act, written, spec, decision.status, context);
  const untilMs = decision.wakeAtMs === undefined ? undefined : Math.max(decision.wakeAtMs - clock.now(), 1);
  const requeueAfterMs = Math.min(retryAfterMs ?? Number.POSITIVE_INFINITY, untilMs ?? Number.POSITIVE_INFINITY);
  return Number.isFinite(requeueAfterMs) ? { requeueAfterMs } : undefined;
}

async function act(
  kind: LoadTestAct,
  test: DeepReadonly<LoadTest>,
  spec: DeepReadonly<LoadTestSpec>,
  status: DeepReadonly<LoadTestStatus>,
  context: ReconcileContext,
): Promise<number | undefined> {
  const { cache, client, clock, signal } = context;
  const actContext: ActContext = {
    client,
    signal,
    fieldManager,
    owner: test,
    mapKind: (apiVersion, name) => mapKind(cache, apiVersion, name),
  };
  const results = await doAct(kind, spec, status, actContext);
  const failure = results.find((result) => result.kind === "failed");
  const unavailable = results.find((result) => result.kind === "unavailable");
  const now = clock.now();
  if (kind === "delete-workload") {
    if (unavailable !== undefined) return retryMs;
    const { frozenSpec: _, ...rest } = status;
    const left =
      failure?.kind === "failed"
        ? { message: `${status.message ?? ""}; the workload was not deleted: ${failure.message}` }
        : {};
    await writeStatus(test, { ...rest, ...left, workloadCleaned: true }, [], context);
    return undefined;
  }
  if (failure?.kind === "failed") {
    // Part of the workload may be running.
    const reached = kind === "apply-workload" ? { ...status, workloadApplied: true } : status;
    const reason = kind === "apply-workload" ? "WorkloadApplyFailed" : "TargetApplyFailed";
    const decision = failTest(reached, reason, failure.message, now);
    await writeStatus(test, decision.status, decision.events, context);
    return undefined;
  }
  if (unavailable?.kind === "unavailable") {
    await writeStatus(test, { ...status, message: `API unavailable: ${unavailable.message}` }, [], context);
    return retryMs;
  }
  const { message: _, ...rest } = status;
  if (kind === "apply-target") {
    const [result] = results;
    const version = result?.kind === "done" ? result.object.resourceVersion : undefined;
    const after = { ...rest, targetApplied: true, ...(version === undefined ? {} : { targetVersion: version }) };
    await writeStatus(test, after, [{ type: "Normal", reason: "TargetApplied", note: "the target was applied" }], context);
    return undefined;
  }
  const after = withConditions({ ...rest, workloadApplied: true }, now, { type: "Ready", status: true, reason: "Running" });
  await writeStatus(test, after, [{ type: "Normal", reason: "LoadTestRunning", note: "the workload was applied" }], context);
  return undefined;
}

async function doAct(
  kind: LoadTestAct,
  spec: DeepReadonly<LoadTestSpec>,
  status: DeepReadonly<LoadTestStatus>,
  context: ActContext,
): Promise<readonly ActResult[]> {
  const target = spec.target.resource;
  if (kind === "apply-target") {
    return target.manifest === undefined ? [] : [await applyResource(target.manifest, target.adopt ?? false, context)];
  }
  const results: ActResult[] = [];
  for (const ref of spec.workload.resources) {
    for (const manifest of expandManifest(ref.manifest ?? {})) {
      if (kind === "delete-workload") {
        if (ref.action !== "Delete" && !ref.adopt && spec.workload.keepWhenDone !== true) {
          results.push(await deleteResource(manifest, { ...context, onlyOwn: true }));
        }
      } else if (ref.action === "Delete") results.push(await deleteResource(manifest, context));
      else results.push(await applyResource(injectValues(manifest, status.injectedValues ?? {}), ref.adopt ?? false, context));
      if (kind !== "delete-workload" && results.at(-1)?.kind !== "done") return results;
    }
  }
  return results;
}

async function writeStatus(
  test: DeepReadonly<LoadTest>,
  status: DeepReadonly<LoadTestStatus>,
  claims: readonly EventClaim[],
  { client, events, signal }: ReconcileContext,
): Promise<DeepReadonly<LoadTest> | undefined> {
  if (jsonEquals(status, test.status ?? {})) return test;
  const { name = "", namespace, resourceVersion } = test.metadata;
  const written = await unlessMovedOn(
    client.applyStatus(
      LoadTest,
      { metadata: { name, namespace, resourceVersion }, status } as Parameters<typeof client.applyStatus<LoadTest>>[1],
      { fieldManager, signal },
    ),
  );
  if (written !== undefined) for (const claim of claims) events.event(test, claim);
  return written;
}
