import { type DeepReadonly, hasFinalizer, jsonEquals, withFinalizer } from "@keelson/api-machinery";
import { type ControllerDefinition, ignoreConflict } from "@keelson/controller";
import { IntegrationTest, type StepStatus } from "../../api/integration-test.ts";
import { fieldManagers, finalizers } from "../../api/names.ts";
import { applyResource, deleteResource, releaseResource } from "../act-on-resource.ts";
import { decideIntegrationTest, frozenSpec, targetsOf } from "./integration-test-decision.ts";
import { afterAct } from "./step-decision.ts";
import { createTestController, type TestActs } from "../test-controller.ts";

const fieldManager = fieldManagers.integrationTest;
const finalizer = finalizers.integrationTest;
const actsAtOnce = 8;

/** Runs IntegrationTests. */
export const createIntegrationTestController = (): ControllerDefinition =>
  createTestController({
    name: "testplane-integrationtest",
    type: IntegrationTest,
    fieldManager,
    finalizer,
    targets: ({ status, spec }, namespace) => targetsOf(frozenSpec(status, spec), namespace),
    decide: ({ spec, metadata, status = {} }, world) =>
      decideIntegrationTest({ spec, generation: metadata.generation ?? 0, status, ...world }),
    act,
    async release(test, context) {
      for (const adopted of test.status?.adopted ?? []) await releaseResource(adopted, context);
    },
  });

/** Applies and deletes what the steps want. */
async function act(
  { status, acts }: ReturnType<typeof decideIntegrationTest>,
  { test, context, actContext, write }: TestActs<IntegrationTest>,
): Promise<number | undefined> {
  if (acts.length === 0) return undefined;
  const { client, clock, signal } = context;
  const spec = frozenSpec(status, test.spec);
  const steps = [...(status.steps ?? [])];
  const adopted = [...(status.adopted ?? [])];
  let owner = test;
  if (acts.some(({ index }) => spec.steps[index]?.resource?.adopt) && !hasFinalizer(test, finalizer)) {
    // Before the first change: what is changed without a word of it could not be taken back.
    const body = { metadata: { resourceVersion: test.metadata.resourceVersion, finalizers: withFinalizer(test, finalizer) } };
    const key = { namespace: test.metadata.namespace, name: test.metadata.name ?? "" };
    const marked = await ignoreConflict(client.patch(IntegrationTest, key, { type: "merge", body }, { fieldManager, signal }));
    if (marked === undefined) return undefined;
    owner = marked;
  }
  let retryAfterMs: number | undefined;
  for (let start = 0; start < acts.length; start += actsAtOnce) {
    await Promise.all(
      acts.slice(start, start + actsAtOnce).map(async ({ index, act: action }) => {
        const resource = spec.steps[index]?.resource;
        const step = steps[index];
        if (resource?.manifest === undefined || step === undefined) return;
        const outcome =
          action === "Delete"
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
  await write(owner, { ...status, steps, ...(adopted.length === 0 ? {} : { adopted }) });
  return retryAfterMs;
}

/** Grows with the time that the step has been at it already: exponential, without a count to keep. */
const backoffMs = (step: DeepReadonly<StepStatus>, now: number): number =>
  Math.min(Math.max(now - Date.parse(step.startedAt ?? ""), 500), 10_000);
