import type { DeepReadonly } from "@keelson/api-machinery";
import type { IntegrationTestSpec } from "../../api/integration-test.ts";
import type { StepStatus } from "../../api/step-status.ts";
import type { TestStep } from "../../api/test-step.ts";

type Spec = DeepReadonly<IntegrationTestSpec>;

/** Part of a test in which a step runs. */
export type StepPhase = NonNullable<StepStatus["phase"]>;

/** A step of a round. Its position in the plan is its position in `status.steps`. */
export interface PlannedStep {
  readonly step: DeepReadonly<TestStep>;
  readonly phase: StepPhase;
  /** Name in the status. */
  readonly name: string;
  /** Positions of the steps that must succeed before a main step. */
  readonly needs: readonly number[];
  /** Position of the main step that a cleanup step belongs to. */
  readonly cleans?: number;
}

/**
 * The steps of a round in the order of the status: main steps, catch, finally, then the cleanup of the main steps in reverse order.
 * An isolated namespace is the first main step and the last cleanup step.
 */
export function planOf(spec: Spec): readonly PlannedStep[] {
  const first = spec.isolatedNamespace === true ? 1 : 0;
  const positions = new Map(spec.steps.map(({ name }, index) => [name, index + first]));
  const isSequential = (spec.mode ?? "Sequential") === "Sequential";
  const main = spec.steps.map((step, index): PlannedStep => {
    const previous = isSequential && index > 0 ? [index + first - 1] : [];
    const needs = step.needs?.flatMap((name) => positions.get(name) ?? []) ?? previous;
    return { step, phase: "Main", name: step.name, needs: first === 1 ? [0, ...needs] : needs };
  });
  const cleanup = main.flatMap(({ step, name }, index) =>
    (step.cleanup ?? []).map(
      (each): PlannedStep => ({
        step: each,
        phase: "Cleanup",
        name: `${name}: ${each.name}`,
        needs: [],
        cleans: index + first,
      }),
    ),
  );
  return [
    ...(first === 1 ? [namespaceStep("Main")] : []),
    ...main,
    ...(spec.catch ?? []).map((step): PlannedStep => ({ step, phase: "Catch", name: step.name, needs: [] })),
    ...(spec.finally ?? []).map((step): PlannedStep => ({ step, phase: "Finally", name: step.name, needs: [] })),
    ...byStepReversed(cleanup),
    ...(first === 1 ? [{ ...namespaceStep("Cleanup"), cleans: 0 }] : []),
  ];
}

/** The cleanup of later steps first; the steps of one cleanup in their order. */
function byStepReversed(steps: readonly PlannedStep[]): readonly PlannedStep[] {
  return steps.toSorted((a, b) => (b.cleans ?? 0) - (a.cleans ?? 0));
}

const isolatedName = "${{ test.namespace }}";

/** Creates or deletes the isolated namespace. */
function namespaceStep(phase: "Main" | "Cleanup"): PlannedStep {
  const name = phase === "Main" ? "create namespace" : "delete namespace";
  const namespace = { apiVersion: "v1", kind: "Namespace" };
  const action =
    phase === "Main"
      ? { apply: { manifests: [{ ...namespace, metadata: { name: isolatedName } }] } }
      : { delete: { object: { ...namespace, name: isolatedName } } };
  return { step: { name, ...action }, phase, name, needs: [] };
}

type Statuses = readonly (DeepReadonly<StepStatus> | undefined)[];

const stateOf = (statuses: Statuses, index: number): StepStatus["state"] => statuses[index]?.state ?? "";
const isDone = (statuses: Statuses, index: number): boolean => ["Succeeded", "Failed"].includes(stateOf(statuses, index) ?? "");

/** Whether a main step may start. */
export function isMainStartable(plan: readonly PlannedStep[], index: number, statuses: Statuses): boolean {
  return plan[index]?.needs.every((need) => stateOf(statuses, need) === "Succeeded") ?? false;
}

/** Whether no main step is running or may still start. */
export function isMainFinished(plan: readonly PlannedStep[], statuses: Statuses): boolean {
  return plan.every(
    ({ phase }, index) =>
      phase !== "Main" ||
      isDone(statuses, index) ||
      (stateOf(statuses, index) !== "Running" && !isMainStartable(plan, index, statuses)),
  );
}

/** Positions of the steps that run after the main ones, in order. */
export function stepsAfterMain(
  plan: readonly PlannedStep[],
  statuses: Statuses,
  {
    policy = "Always",
    outcome,
  }: { readonly policy: Spec["cleanupPolicy"]; readonly outcome: "Succeeded" | "Failed" | "Stopped" },
): readonly number[] {
  const cleans = policy === "Always" || (policy === "OnSuccess" && outcome === "Succeeded");
  return plan.flatMap(({ phase, cleans: cleaned }, index) => {
    if (phase === "Catch") return outcome === "Failed" ? [index] : [];
    if (phase === "Finally") return [index];
    const hasStarted = cleaned !== undefined && statuses[cleaned]?.startedAt !== undefined;
    return phase === "Cleanup" && cleans && hasStarted ? [index] : [];
  });
}
