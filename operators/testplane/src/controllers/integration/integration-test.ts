import { type DeepReadonly, hasFinalizer, jsonEquals, withFinalizer } from "@keelson/api-machinery";
import { type ControllerDefinition, ignoreConflict } from "@keelson/controller";
import { IntegrationTest, type StepStatus } from "../../api/integration-test.ts";
import { fieldManagers, finalizers } from "../../api/names.ts";
import { applyResource, deleteResource, releaseResource } from "../resource-actions.ts";
import { decideIntegrationTest, frozenSpec, stepFailed, targetsOf } from "./integration-test-decision.ts";
import { afterAction } from "./step-decision.ts";
import { createTestController, type ActionScope } from "../test-controller.ts";

const fieldManager = fieldManagers.integrationTest;
const finalizer = finalizers.integrationTest;
const maxConcurrentActions = 8;

/** Creates the controller of IntegrationTests. */
export const createIntegrationTestController = (): ControllerDefinition =>
  createTestController({
    name: "testplane-integrationtest",
    type: IntegrationTest,
    fieldManager,
    finalizer,
    targets: ({ status, spec }, namespace) => targetsOf(frozenSpec(status, spec), namespace),
    decide: ({ spec, metadata, status = {} }, observations) =>
      decideIntegrationTest({ spec, generation: metadata.generation ?? 0, status, ...observations }),
    act,
    async release(test, context) {
      for (const adopted of test.status?.adopted ?? []) await releaseResource(adopted, context);
    },
  });

/** Applies and deletes the objects of steps. */
async function act(
  { status, actions }: ReturnType<typeof decideIntegrationTest>,
  { test, context, actionContext, write }: ActionScope<IntegrationTest>,
): Promise<number | undefined> {
  if (actions.length === 0) return undefined;
  const { client, clock, signal } = context;
  const spec = frozenSpec(status, test.spec);
  const steps = [...(status.steps ?? [])];
  const adopted = [...(status.adopted ?? [])];
  let owner = test;
  if (actions.some(({ index }) => spec.steps[index]?.resource?.adopt) && !hasFinalizer(test, finalizer)) {
    // The finalizer is set before the first change, so that no change to an adopted object is left behind.
    const body = { metadata: { resourceVersion: test.metadata.resourceVersion, finalizers: withFinalizer(test, finalizer) } };
    const key = { namespace: test.metadata.namespace, name: test.metadata.name ?? "" };
    const marked = await ignoreConflict(client.patch(IntegrationTest, key, { type: "merge", body }, { fieldManager, signal }));
    if (marked === undefined) return undefined;
    owner = marked;
  }
  let retryAfterMs: number | undefined;
  for (let start = 0; start < actions.length; start += maxConcurrentActions) {
    await Promise.all(
      actions.slice(start, start + maxConcurrentActions).map(async ({ index, act: action }) => {
        const resource = spec.steps[index]?.resource;
        const step = steps[index];
        if (resource?.manifest === undefined || step === undefined) return;
        const outcome =
          action === "Delete"
            ? await deleteResource(resource.manifest, actionContext)
            : await applyResource(resource.manifest, resource.adopt ?? false, actionContext);
        if (outcome.kind === "unavailable") retryAfterMs = backoffMs(step, clock.now());
        if ("adopted" in outcome && outcome.adopted) {
          const { apiVersion, kind, metadata } = resource.manifest;
          const entry = { apiVersion: String(apiVersion), kind: String(kind), name: (metadata as { name: string }).name };
          if (!adopted.some((each) => jsonEquals(each, entry))) adopted.push(entry);
        }
        steps[index] = afterAction(step, outcome, clock.now());
      }),
    );
  }
  const rejected = steps.flatMap((step, index) =>
    step.state === "Failed" && status.steps?.[index]?.state !== "Failed" ? [stepFailed(step)] : [],
  );
  await write(owner, { ...status, steps, ...(adopted.length === 0 ? {} : { adopted }) }, rejected);
  return retryAfterMs;
}

/** Exponential backoff without a counter: the delay grows with the time since the step started. */
const backoffMs = (step: DeepReadonly<StepStatus>, now: number): number =>
  Math.min(Math.max(now - Date.parse(step.startedAt ?? ""), 500), 10_000);
