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
  /** Positions of the catch and finally steps of a main step, in their order. */
  readonly handlers: readonly number[];
  /** Position of the main step that this catch, finally or cleanup step belongs to. Absent for those of the test. */
  readonly belongsTo?: number;
}

/**
 * The steps of a round in the order of the status: main steps, the catch and finally steps of each, catch and finally of the test, then
 * the cleanup of the main steps in reverse order. An isolated namespace is the first main step and the last cleanup step.
 */
export function planOf(spec: Spec): readonly PlannedStep[] {
  const first = spec.isolatedNamespace === true ? 1 : 0;
  const positions = new Map(spec.steps.map(({ name }, index) => [name, index + first]));
  const isSequential = (spec.mode ?? "Sequential") === "Sequential";
  const handlers: PlannedStep[] = [];
  const main = spec.steps.map((step, index): PlannedStep => {
    const previous = isSequential && index > 0 ? [index + first - 1] : [];
    const needs = step.needs?.flatMap((name) => positions.get(name) ?? []) ?? previous;
    const own = [...lateSteps(step, "Catch", index + first), ...lateSteps(step, "Finally", index + first)];
    const from = first + spec.steps.length + handlers.length;
    handlers.push(...own);
    return {
      ...{ step, phase: "Main", name: step.name },
      needs: first === 1 ? [0, ...needs] : needs,
      handlers: own.map((_, at) => from + at),
    };
  });
  const cleanup = main.flatMap(({ step }, index) => lateSteps(step, "Cleanup", index + first));
  return [
    ...(first === 1 ? [namespaceStep("Main")] : []),
    ...main,
    ...handlers,
    ...(spec.catch ?? []).map((step): PlannedStep => ({ step, phase: "Catch", name: step.name, needs: [], handlers: [] })),
    ...(spec.finally ?? []).map((step): PlannedStep => ({ step, phase: "Finally", name: step.name, needs: [], handlers: [] })),
    ...byStepReversed(cleanup),
    ...(first === 1 ? [{ ...namespaceStep("Cleanup"), belongsTo: 0 }] : []),
  ];
}

const lateLists = { Catch: "catch", Finally: "finally", Cleanup: "cleanup" } as const;

/** The catch, finally or cleanup steps of the main step at a position. */
function lateSteps(main: DeepReadonly<TestStep>, phase: keyof typeof lateLists, belongsTo: number): readonly PlannedStep[] {
  return (main[lateLists[phase]] ?? []).map((step) => ({
    ...{ step, phase, name: `${main.name}: ${step.name}`, needs: [], handlers: [], belongsTo },
  }));
}

/** The cleanup of later steps first; the steps of one cleanup in their order. */
function byStepReversed(steps: readonly PlannedStep[]): readonly PlannedStep[] {
  return steps.toSorted((a, b) => (b.belongsTo ?? 0) - (a.belongsTo ?? 0));
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
  return { step: { name, ...action }, phase, name, needs: [], handlers: [] };
}

type Statuses = readonly (DeepReadonly<StepStatus> | undefined)[];

const stateOf = (statuses: Statuses, index: number): StepStatus["state"] => statuses[index]?.state ?? "";
const isDone = (statuses: Statuses, index: number): boolean => ["Succeeded", "Failed"].includes(stateOf(statuses, index) ?? "");

/** Whether a main step and the catch and finally steps that follow it have finished. */
function isHandled(plan: readonly PlannedStep[], index: number, statuses: Statuses): boolean {
  return isDone(statuses, index) && handlersOf(plan, index, statuses).every((handler) => isDone(statuses, handler));
}

/** Positions of the catch and finally steps that follow a finished main step, in their order. */
export function handlersOf(plan: readonly PlannedStep[], index: number, statuses: Statuses): readonly number[] {
  const hasFailed = stateOf(statuses, index) === "Failed";
  return plan[index]?.handlers.filter((handler) => hasFailed || plan[handler]?.phase === "Finally") ?? [];
}

/** Whether a main step may start. */
export function isMainStartable(plan: readonly PlannedStep[], index: number, statuses: Statuses): boolean {
  return (
    plan[index]?.needs.every((need) => stateOf(statuses, need) === "Succeeded" && isHandled(plan, need, statuses)) ?? false
  );
}

/** Whether no main step or its catch and finally steps are running or may still start. */
export function isMainFinished(plan: readonly PlannedStep[], statuses: Statuses): boolean {
  return plan.every(
    ({ phase }, index) =>
      phase !== "Main" ||
      isHandled(plan, index, statuses) ||
      (stateOf(statuses, index) === "" && !isMainStartable(plan, index, statuses)),
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
  return plan.flatMap(({ phase, belongsTo }, index) => {
    if (phase === "Main") return [];
    if (stateOf(statuses, index) === "Running") return [index];
    if (phase === "Catch") return belongsTo === undefined && outcome === "Failed" ? [index] : [];
    if (phase === "Finally" && belongsTo === undefined) return [index];
    const hasStarted = belongsTo !== undefined && hasBegun(statuses[belongsTo]);
    // The finally steps of a step have run before, unless the test was stopped.
    return hasStarted && (phase === "Finally" ? outcome === "Stopped" : cleans) ? [index] : [];
  });
}

/** Whether a step has started, maybe in an earlier attempt. */
const hasBegun = (status: Statuses[number]): boolean => status?.startedAt !== undefined || (status?.attempt ?? 1) > 1;
