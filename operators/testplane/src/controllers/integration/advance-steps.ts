import type { DeepReadonly } from "@keelson/api-machinery";
import type { IntegrationTestStatus } from "../../api/integration-test.ts";
import type { StepStatus } from "../../api/step-status.ts";
import type { TestStep } from "../../api/test-step.ts";
import { stepNamespace } from "../../clusters/step-namespace.ts";
import { hasProgram, podNameOf, programPod } from "../../programs/program-pod.ts";
import { giveUpAt, toolActionOf, type ToolPlan, withTexts } from "../../tools/tool-plan.ts";
import { toolPod } from "../../tools/tool-pod.ts";
import { render } from "../../templating/template.ts";
import { testVariables } from "../../templating/test-variables.ts";
import type { EventDraft } from "../test-status.ts";
import { handlersOf, isMainFinished, isMainStartable, type PlannedStep, planOf, stepsAfterMain } from "./plan.ts";
import { decideStep, type StepDecision } from "./step-decision.ts";
import { beginStep, defaultStepSeconds, failed, nextAttempt } from "./step-status.ts";
import { type Turn, webhookTimeoutMs } from "./turn.ts";

type Status = DeepReadonly<IntegrationTestStatus>;

/** Advances the main steps. With `isPaused`, no further step starts. */
export function advanceMain(turn: Turn, before: Status, isPaused: boolean): Status {
  const plan = planOf(turn.input.spec);
  let status = withRetries(turn, before, plan);
  let current = before.currentStepIndex ?? 0;
  for (const [index, planned] of plan.entries()) {
    if (planned.phase !== "Main") break;
    const state = status.steps?.[index]?.state ?? "";
    if (state === "" && (isPaused || isWaitingForAttempt(turn, status, index))) continue;
    if (state === "" && !isMainStartable(plan, index, status.steps ?? [])) continue;
    if (state === "" || state === "Running") {
      current = index;
      status = withRetries(turn, advanceStep(turn, status, index, planned), plan);
    }
    if (isFinished(status, index))
      status = advanceInOrder(turn, status, { plan, isPaused, positions: handlersOf(plan, index, status.steps ?? []) }).status;
  }
  const main = plan.filter(({ phase }) => phase === "Main").length;
  return { ...status, currentStepIndex: current, progress: `${Math.min(current + 1, main)}/${main}` };
}

/** The outcome of the main steps; undefined while one is running or may still start. */
export function mainOutcome(turn: Turn, status: Status): "Succeeded" | "Failed" | undefined {
  const plan = planOf(turn.input.spec);
  const steps = status.steps ?? [];
  if (!isMainFinished(plan, steps)) return undefined;
  return plan.every(({ phase }, index) => phase !== "Main" || steps[index]?.state === "Succeeded") ? "Succeeded" : "Failed";
}

/** A status after steps that run one after another. `isDone`: all of them have finished. */
interface Advanced {
  readonly status: Status;
  readonly isDone: boolean;
}

/** Advances catch, finally and cleanup steps, one after another. With `isPaused`, no further step starts. */
export function advanceAfterMain(
  turn: Turn,
  before: Status,
  { outcome, isPaused }: { readonly outcome: "Succeeded" | "Failed" | "Stopped"; readonly isPaused: boolean },
): Advanced {
  const { spec } = turn.input;
  const plan = planOf(spec);
  const positions = stepsAfterMain(plan, before.steps ?? [], { policy: spec.cleanupPolicy, outcome });
  return advanceInOrder(turn, before, { plan, positions, isPaused });
}

function advanceInOrder(
  turn: Turn,
  before: Status,
  {
    plan,
    positions,
    isPaused,
  }: { readonly plan: readonly PlannedStep[]; readonly positions: readonly number[]; readonly isPaused: boolean },
): Advanced {
  let status = before;
  for (const index of positions) {
    const planned = plan[index];
    if (planned === undefined || isFinished(status, index)) continue;
    if (isPaused && status.steps?.[index]?.state !== "Running") return { status, isDone: false };
    status = advanceStep(turn, { ...status, currentStepIndex: index }, index, planned);
    if (!isFinished(status, index)) return { status, isDone: false };
  }
  return { status, isDone: true };
}

const isFinished = ({ steps = [] }: Status, index: number): boolean =>
  steps[index]?.state === "Succeeded" || steps[index]?.state === "Failed";

/** A step with its expressions evaluated, or why one could not be. */
export function resolveStep(turn: Pick<Turn, "input">, status: Status, index: number, { step }: PlannedStep) {
  const { spec, name = "", uid = "", namespace } = turn.input;
  // Later steps are rendered when they run: they may use outputs of the step itself.
  const { catch: _, finally: __, cleanup: ___, ...own } = step;
  const resolved = render(own as DeepReadonly<TestStep>, testVariables(spec, status, { name, namespace }));
  if (resolved.kind === "error" || !hasProgram(step)) return resolved;
  const run = { test: name, uid, round: status.currentRound ?? 1, index, attempt: status.steps?.[index]?.attempt ?? 1 };
  const manifest = podOfProgram(turn, status, { step: resolved.value, index, name: podNameOf(run) });
  return { ...resolved, value: { ...resolved.value, create: { manifests: [manifest] } } };
}

/** The Pod of a step's program, in the namespace of the test: the ServiceAccount does not exist in an isolated one. */
function podOfProgram(
  { input: { spec, namespace, program, wallOffsetMs = 0 } }: Pick<Turn, "input">,
  status: Status,
  { step, index, name }: { readonly step: DeepReadonly<TestStep>; readonly index: number; readonly name: string },
): Record<string, unknown> {
  const { serviceAccountName } = spec;
  const roundNamespace = status.namespace ?? namespace;
  const action = toolActionOf(step);
  const activeDeadlineSeconds = step.timeoutSeconds || defaultStepSeconds;
  const permissions = { serviceAccountName, activeDeadlineSeconds };
  if (action === undefined) return programPod(step, { name, namespace, ...permissions, roundNamespace });
  const { startedAt = "", deadline = "" } = status.steps?.[index] ?? {};
  const plan: ToolPlan = {
    action: withTexts(action),
    namespace: roundNamespace,
    // The program of the step reads the wall clock.
    giveUpAtMs: giveUpAt(Date.parse(startedAt) || 0, Date.parse(deadline) || 0) + wallOffsetMs,
    acceptsAnyStatus: step.expectations !== undefined || step.readyCondition !== undefined,
  };
  return toolPod(plan, { name, namespace }, program, permissions);
}

function advanceStep(turn: Turn, before: Status, index: number, planned: PlannedStep): Status {
  const { spec, namespace, name = "", now, wallOffsetMs = 0, observe, webhookState } = turn.input;
  const { phase } = planned;
  let status = before.steps?.[index] ?? { name: planned.name, index, state: "" as const };
  const resolved = resolveStep(turn, before, index, planned);
  if ((status.state ?? "") === "") {
    status = beginStep(status, planned.step, now);
    if (phase !== "Main") status = { ...status, phase };
    turn.events.push({ type: "Normal", reason: "StepStarted", note: `round ${before.currentRound ?? 1}: ${planned.name}` });
  }
  const decision: StepDecision =
    resolved.kind === "error"
      ? { status: failed(status, "TemplateFailed", resolved.message, now), webhookCalls: [] }
      : decideStep({
          step: resolved.value,
          status,
          namespace: stepNamespace(spec, planned.step, before.namespace ?? namespace),
          observe,
          context: {
            scope: `${before.currentRound ?? 1}/steps[${index}]`,
            ...{ webhookState, now, wallOffsetMs, webhookTimeoutMs },
            variables: testVariables(spec, before, { name, namespace }),
          },
        });
  record(turn, index, decision);
  const outputs = decision.outputs === undefined ? {} : { outputs: { ...before.outputs, ...decision.outputs } };
  return { ...before, ...outputs, steps: replaced(before.steps ?? [], index, decision.status) };
}

function record(turn: Turn, index: number, { act, webhookCalls, wakeAtMs, status }: StepDecision): void {
  if (act !== undefined) turn.actions.push({ index, act });
  turn.webhookCalls.push(...webhookCalls);
  if (wakeAtMs !== undefined) turn.wakes.push(wakeAtMs);
  if (status.state === "Succeeded") turn.events.push({ type: "Normal", reason: "StepSucceeded", note: status.name });
  if (status.state === "Failed") turn.events.push(stepFailed(status));
}

/** Resets failed main steps that have attempts left. */
function withRetries(turn: Turn, status: Status, plan: readonly PlannedStep[]): Status {
  let steps = status.steps ?? [];
  for (const [index, { step, phase }] of plan.entries()) {
    const before = steps[index];
    if (phase !== "Main" || before?.state !== "Failed" || (before.attempt ?? 1) > (step.retries ?? 0)) continue;
    const next = nextAttempt(before, turn.input.now);
    turn.wakes.push(Date.parse(next.nextAttemptAt ?? ""));
    turn.events.push({ type: "Normal", reason: "StepRetried", note: `${before.name}: ${next.message ?? ""}` });
    steps = replaced(steps, index, next);
  }
  return steps === status.steps ? status : { ...status, steps };
}

function isWaitingForAttempt(turn: Turn, status: Status, index: number): boolean {
  const at = Date.parse(status.steps?.[index]?.nextAttemptAt ?? "");
  if (Number.isNaN(at) || turn.input.now >= at) return false;
  turn.wakes.push(at);
  return true;
}

const replaced = (
  steps: readonly DeepReadonly<StepStatus>[],
  index: number,
  status: DeepReadonly<StepStatus>,
): readonly DeepReadonly<StepStatus>[] => steps.map((each, at) => (at === index ? status : each));

/** The event of a failed step. */
export const stepFailed = ({
  name,
  reason,
  message,
}: DeepReadonly<Pick<StepStatus, "name" | "reason" | "message">>): EventDraft => ({
  type: "Warning",
  reason: "StepFailed",
  note: `${name}: ${reason ?? ""}: ${message ?? ""}`,
});
