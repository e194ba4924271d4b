import type { DeepReadonly } from "@keelson/api-machinery";
import type { LoadTestSpec } from "../../api/load-test.ts";
import { describeTarget, type Observation, type Target, targetOf } from "../../evaluation/target.ts";
import { createPodsOf, hasPods } from "../../evaluation/workload-pods.ts";
import type { Resource } from "../../functions/function.ts";
import { terminalPodError } from "../../functions/pod-health.ts";
import { conditionOf, numberAt, objectsAt, stringAt } from "../../functions/read.ts";
import { generatorPodNames } from "./generator-pods.ts";
import { expandManifest } from "../../manifests/manifest.ts";

/** State of a workload. `completed`: all of its Jobs and Pods succeeded, and nothing else is running. */
export type WorkloadState =
  | { readonly kind: "running" }
  | { readonly kind: "completed" }
  | { readonly kind: "failed"; readonly message: string };

/** Names of a LoadTest. */
export interface TestName {
  readonly namespace: string;
  readonly name: string;
}

/** The objects that a LoadTest applies as its workload. */
export function workloadTargets(
  { workload }: DeepReadonly<LoadTestSpec>,
  { namespace, name: test }: TestName,
): readonly Target[] {
  const { generator, resources = [] } = workload;
  const names = generator === undefined ? [] : generatorPodNames(generator, test);
  const pods = names.map((name) => ({ apiVersion: "v1", kind: "Pod", namespace, name }));
  const applied = resources
    .filter(({ action }) => action !== "Delete")
    .flatMap(({ manifest }) => expandManifest(manifest ?? {}))
    .map((manifest) => targetOf({ manifest }, namespace));
  return [...pods, ...applied];
}

/** Observes the workload of a running LoadTest. */
export function workloadState(
  spec: DeepReadonly<LoadTestSpec>,
  test: TestName,
  observe: (target: Target) => Observation,
): WorkloadState {
  const states: WorkloadState["kind"][] = [];
  for (const target of workloadTargets(spec, test)) {
    if (!hasPods(target)) continue;
    const observation = observe(target);
    const [object] = observation.kind === "known" ? observation.objects : [];
    const state = object === undefined ? { kind: "running" as const } : stateOf(target, object, observe);
    if (state.kind === "failed") return state;
    states.push(state.kind);
  }
  return { kind: states.length > 0 && states.every((kind) => kind === "completed") ? "completed" : "running" };
}

function stateOf(target: Target, object: NonNullable<Resource>, observe: (target: Target) => Observation): WorkloadState {
  if (target.kind === "Pod") return podState(target, object);
  if (target.kind === "Job") {
    const failed = conditionOf(object, "Failed");
    if (failed?.["status"] === "True") {
      const why = stringAt(failed, "message") || stringAt(failed, "reason");
      return { kind: "failed", message: `${describeTarget(target)} failed: ${why}` };
    }
    if (conditionOf(object, "Complete")?.["status"] === "True") return { kind: "completed" };
  }
  const pods = createPodsOf(observe, target)(object);
  const error = Array.isArray(pods) ? pods.map(terminalPodError).find((each) => each !== undefined) : undefined;
  return error === undefined ? { kind: "running" } : { kind: "failed", message: error };
}

function podState(target: Target, pod: NonNullable<Resource>): WorkloadState {
  const phase = stringAt(pod, "status", "phase");
  if (phase === "Succeeded") return { kind: "completed" };
  if (phase !== "Failed") {
    const error = terminalPodError(pod);
    return error === undefined ? { kind: "running" } : { kind: "failed", message: error };
  }
  const exits = objectsAt(pod, "status", "containerStatuses").flatMap((container) => {
    const exitCode = numberAt(container, ["state", "terminated", "exitCode"], 0);
    return exitCode === 0 ? [] : [`container ${stringAt(container, "name")} exited with code ${exitCode}`];
  });
  const why = exits.join(", ") || stringAt(pod, "status", "message") || stringAt(pod, "status", "reason") || "unknown reason";
  return { kind: "failed", message: `${describeTarget(target)} failed: ${why}` };
}
