import type { DeepReadonly } from "@keelson/api-machinery";
import type { ControllerDefinition } from "@keelson/controller";
import { LoadTest, type LoadTestSpec, type LoadTestStatus } from "../../api/load-test.ts";
import type { ResourceRef } from "../../api/resource-ref.ts";
import { fieldManagers, finalizers } from "../../api/names.ts";
import { type ActionContext, type ActionResult, applyResource, deleteResource } from "../resource-actions.ts";
import { decideLoadTest, frozenLoadTest } from "./load-test-decision.ts";
import { generatorPods } from "./generator-pods.ts";
import type { KeelsonProgram } from "../../programs/keelson-program.ts";
import { failTest, withConditions } from "./load-test-end.ts";
import type { LoadTestAction } from "./load-test-input.ts";
import { expandManifest, injectValues } from "../../manifests/manifest.ts";
import { targetOf } from "../../evaluation/target.ts";
import { relatedTargets } from "../../evaluation/workload-pods.ts";
import { readProgress } from "./load-progress.ts";
import { collectOutput } from "./workload-output.ts";
import { workloadTargets } from "./workload-state.ts";
import { createTestController, type ActionScope } from "../test-controller.ts";

const retryMs = 2_000;

/** Creates the controller of LoadTests. */
export const createLoadTestController = (program: KeelsonProgram): ControllerDefinition =>
  createTestController({
    name: "testplane-loadtest",
    type: LoadTest,
    fieldManager: fieldManagers.loadTest,
    finalizer: finalizers.loadTest,
    targets: ({ status, spec: current, metadata: { name = "" } }, namespace) => {
      const spec = frozenLoadTest(status, current);
      const workload = status?.phase === "Running" ? workloadTargets(spec, { namespace, name }) : [];
      return [targetOf(spec.target.resource, namespace), ...workload].flatMap((target) => [target, ...relatedTargets(target)]);
    },
    decide: ({ spec, metadata, status = {} }, observations) =>
      decideLoadTest({ spec, generation: metadata.generation ?? 0, name: metadata.name ?? "", status, ...observations }),
    act: (decision, scope) => act(decision, scope, program),
  });

/** Applies the target, applies the workload, or deletes the workload. */
async function act(
  { status, act: kind }: ReturnType<typeof decideLoadTest>,
  { test, now: testTime, actionContext, write }: ActionScope<LoadTest>,
  program: KeelsonProgram,
): Promise<number | undefined> {
  if (kind === undefined) return undefined;
  if (kind === "read-progress") {
    const progress = await readProgress(frozenLoadTest(status, test.spec), actionContext, testTime());
    await write(test, { ...status, ...progress });
    return undefined;
  }
  if (kind === "collect-output") {
    const collected = await collectOutput(frozenLoadTest(status, test.spec), actionContext);
    const load = collected.load ?? status.load;
    // A worker that was stopped has not reported its result.
    const measured = load?.state === "Running" ? { load: { ...load, state: "Partial" as const } } : {};
    await write(test, { ...status, ...collected, ...measured });
    return undefined;
  }
  const results = await applyAction(kind, { ...test, status, spec: frozenLoadTest(status, test.spec) }, actionContext, program);
  const failure = results.find((result) => result.kind === "failed");
  const unavailable = results.find((result) => result.kind === "unavailable");
  const now = testTime();
  if (kind === "delete-workload") {
    if (unavailable !== undefined) return retryMs;
    const { frozenSpec: _, ...rest } = status;
    const left =
      failure?.kind === "failed"
        ? { message: `${status.message ?? ""}; could not delete the workload: ${failure.message}` }
        : {};
    await write(test, { ...rest, ...left, workloadCleaned: true });
    return undefined;
  }
  if (failure?.kind === "failed") {
    // Part of the workload may already be running.
    const reached = kind === "apply-workload" ? { ...status, workloadApplied: true } : status;
    const reason = kind === "apply-workload" ? "WorkloadApplyFailed" : "TargetApplyFailed";
    const decision = failTest(reached, reason, failure.message, now);
    await write(test, decision.status, decision.events);
    return undefined;
  }
  if (unavailable?.kind === "unavailable") {
    await write(test, { ...status, message: `API unavailable: ${unavailable.message}` });
    return retryMs;
  }
  const { message: _, ...rest } = status;
  if (kind === "apply-target") {
    const [result] = results;
    const version = result?.kind === "done" ? result.object?.resourceVersion : undefined;
    const after = { ...rest, targetApplied: true, ...(version === undefined ? {} : { targetVersion: version }) };
    await write(test, after, [{ type: "Normal", reason: "TargetApplied", note: "the target was applied" }]);
    return undefined;
  }
  const after = withConditions({ ...rest, workloadApplied: true }, now, { type: "Ready", status: true, reason: "Running" });
  await write(test, after, [{ type: "Normal", reason: "LoadTestRunning", note: "the workload was applied" }]);
  return undefined;
}

async function applyAction(
  kind: LoadTestAction,
  { spec, status = {} }: DeepReadonly<Pick<LoadTest, "spec" | "status">>,
  context: ActionContext,
  program: KeelsonProgram,
): Promise<readonly ActionResult[]> {
  const target = spec.target.resource;
  if (kind === "apply-target") {
    return target.manifest === undefined ? [] : [await applyResource(target.manifest, target.adopt ?? false, context)];
  }
  const results: ActionResult[] = [];
  const objects = workloadObjects(spec, status, context, program);
  if (typeof objects === "string") return [{ kind: "failed", reason: "TemplateFailed", message: objects }];
  for (const ref of objects) {
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

/** The objects of a workload, those of the load generator last; or why its texts cannot be rendered. */
function workloadObjects(
  { workload: { generator, resources = [] } }: DeepReadonly<LoadTestSpec>,
  { injectedValues = {} }: DeepReadonly<LoadTestStatus>,
  { owner }: ActionContext,
  program: KeelsonProgram,
): readonly DeepReadonly<ResourceRef>[] | string {
  if (generator === undefined) return resources;
  const pods = generatorPods(generator, owner.metadata.name ?? "", injectedValues, program);
  return pods.kind === "error" ? pods.message : [...resources, ...pods.value.map((manifest) => ({ manifest }))];
}
