import type { DeepReadonly } from "@keelson/api-machinery";
import type { LoadTestSpec } from "../../api/load-test.ts";
import { describeTarget, type Observation, type Target, targetOf } from "../../evaluation/target.ts";
import { createPodsOf, hasPods } from "../../evaluation/workload-pods.ts";
import type { Resource } from "../../functions/function.ts";
import { terminalPodError } from "../../functions/pod-health.ts";
import { conditionOf, numberAt, objectsAt, stringAt } from "../../functions/read.ts";
import { generatorPodNames } from "./generator-pods.ts";
import { expandManifest } from "../../manifests/manifest.ts";

/**
 * State of a workload. `completed`: all of its Jobs and Pods succeeded, and nothing else is running, except for Deployments and the like
 * next to the built-in generator. `isGenerating`: a Pod of the built-in generator has not completed.
 */
export type WorkloadState =
  | { readonly kind: "running"; readonly isGenerating: boolean }
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
  const { generator } = spec.workload;
  const generators = new Set(generator === undefined ? [] : generatorPodNames(generator, test.name));
  let [isGenerating, isRunning, hasCompleted] = [false, false, false];
  for (const target of workloadTargets(spec, test)) {
    if (!hasPods(target)) continue;
    const observation = observe(target);
    const [object] = observation.kind === "known" ? observation.objects : [];
    const state = object === undefined ? running : stateOf(target, object, observe);
    if (state.kind === "failed") return state;
    if (state.kind === "completed") hasCompleted = true;
    else if (target.kind === "Pod" && generators.has(target.name ?? "")) isGenerating = true;
    // The load of a generator ends although a Deployment next to it runs for ever.
    else if (generator === undefined || canComplete(target)) isRunning = true;
  }
  return hasCompleted && !isGenerating && !isRunning ? { kind: "completed" } : { kind: "running", isGenerating };
}

const canComplete = ({ kind }: Target): boolean => kind === "Pod" || kind === "Job";

/** State of an object of a workload. */
type ObjectState = Exclude<WorkloadState, { kind: "running" }> | { readonly kind: "running" };

const running: ObjectState = { kind: "running" };

function stateOf(target: Target, object: NonNullable<Resource>, observe: (target: Target) => Observation): ObjectState {
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
  return error === undefined ? running : { kind: "failed", message: error };
}

function podState(target: Target, pod: NonNullable<Resource>): ObjectState {
  const phase = stringAt(pod, "status", "phase");
  if (phase === "Succeeded") return { kind: "completed" };
  if (phase !== "Failed") {
    const error = terminalPodError(pod);
    return error === undefined ? running : { kind: "failed", message: error };
  }
  const exits = objectsAt(pod, "status", "containerStatuses").flatMap((container) => {
    const exitCode = numberAt(container, ["state", "terminated", "exitCode"], 0);
    if (exitCode === 0) return [];
    return [`container ${stringAt(container, "name")} exited with code ${exitCode}${reasonOf(container)}`];
  });
  const why = exits.join(", ") || stringAt(pod, "status", "message") || stringAt(pod, "status", "reason") || "unknown reason";
  return { kind: "failed", message: `${describeTarget(target)} failed: ${why}` };
}

const maxReasonLength = 500;

/** The last line of a container's termination message, unless it is a report of the load generator. */
function reasonOf(container: NonNullable<Resource>): string {
  const last = stringAt(container, "state", "terminated", "message").trimEnd().split("\n").at(-1)?.trim() ?? "";
  return last === "" || last.startsWith("{") ? "" : `: ${last.slice(0, maxReasonLength)}`;
}
