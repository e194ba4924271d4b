import { type DeepReadonly, hasFinalizer, isConflict, isNotFound, jsonEquals, withFinalizer } from "@keelson/api-machinery";
import type { Client } from "@keelson/client";
import { type ControllerDefinition, ignoreConflict, type ReconcileContext } from "@keelson/controller";
import { IntegrationTest, type StepStatus } from "../../api/integration-test.ts";
import { fieldManagers, finalizers } from "../../api/names.ts";
import { stepNamespace } from "../../clusters/step-namespace.ts";
import { collectFailure, needsFailureBundle } from "../../failures/collect-failure.ts";
import { performAction } from "../../operations/perform-action.ts";
import { stepTarget } from "../../operations/step-objects.ts";
import { collectResult, deleteProgramPod } from "../../programs/collect-result.ts";
import type { KeelsonProgram } from "../../programs/keelson-program.ts";
import { podNameOf } from "../../programs/program-pod.ts";
import { toolActionOf } from "../../tools/tool-plan.ts";
import { type ActionContext, type ActionResult, outcomeOf, releaseResource } from "../resource-actions.ts";
import { type ActionScope, createTestController } from "../test-controller.ts";
import { iso } from "../test-status.ts";
import { resolveStep, stepFailed } from "./advance-steps.ts";
import { type ContextOf, deleteForeignObjects, type PendingAction, withForeignObjects } from "./foreign-objects.ts";
import { deleteRemoteObjects } from "./remote-objects.ts";
import { decideIntegrationTest, frozenSpec, targetsOf } from "./integration-test-decision.ts";
import { planOf } from "./plan.ts";
import { afterAction } from "./step-status.ts";
import type { IntegrationTestInput } from "./turn.ts";

const fieldManager = fieldManagers.integrationTest;
const finalizer = finalizers.integrationTest;
const maxConcurrentActions = 8;
/** Delay before the Pod of a stopped program is deleted again. */
const endRetryMs = 1_000;

type Test = DeepReadonly<IntegrationTest>;
type Decision = ReturnType<typeof decideIntegrationTest>;

/** Creates the controller of IntegrationTests. `program`: the tool of the steps `http`, `logs`, `exec` and `portForward`. */
export const createIntegrationTestController = (program: KeelsonProgram): ControllerDefinition =>
  createTestController({
    name: "testplane-integrationtest",
    type: IntegrationTest,
    fieldManager,
    finalizer,
    targets: ({ status = {}, spec, metadata }, namespace) =>
      targetsOf({
        ...{ spec: frozenSpec(status, spec), status, namespace },
        ...{ name: metadata.name ?? "", uid: metadata.uid ?? "", program },
      }),
    reader: ({ spec, status = {} }) => ({
      roundNamespace: status.namespace,
      serviceAccountName: frozenSpec(status, spec).serviceAccountName,
    }),
    decide: ({ spec, metadata, status = {} }, observations) =>
      decideIntegrationTest({
        ...{ spec, generation: metadata.generation ?? 0, status, ...observations },
        ...{ name: metadata.name ?? "", uid: metadata.uid ?? "", program },
      }),
    act: (decision, scope) => act(decision, scope, program),
    clusters: ({ spec, status }) => frozenSpec(status, spec).clusters ?? [],
    async release(test, context, reconcile) {
      for (const adopted of test.status?.adopted ?? []) await releaseResource(adopted, context);
      const foreign = test.status?.foreignObjects ?? [];
      await deleteForeignObjects(
        foreign.filter(({ cluster }) => cluster === undefined),
        context,
      );
      await deleteRemoteObjects(
        foreign.filter(({ cluster }) => cluster !== undefined),
        { test, context, reconcile },
      );
    },
  });

/** Performs the actions of steps. */
async function act(
  decided: Decision,
  scope: ActionScope<IntegrationTest, Decision>,
  program: KeelsonProgram,
): Promise<number | undefined> {
  const { context, write } = scope;
  const { client, signal } = context;
  if (decided.deletesTest === true) {
    await deleteTest(client, scope.test, signal);
    return undefined;
  }
  const recorded = await recordFailure(decided, scope, program);
  if (recorded === undefined) return undefined;
  const { decision, test } = recorded;
  const ended = await endPrograms(decision, test, context);
  const pending = pendingActions(decision, test, program);
  if (pending.length === 0) return ended;
  const { status } = decision;
  const contextOf: ContextOf = (action) => stepContext(scope, test, status, action);
  const foreignObjects = withForeignObjects(status.foreignObjects ?? [], pending, test, contextOf);
  const isTracked = foreignObjects.length === (status.foreignObjects ?? []).length;
  const adopts = pending.some(({ step }) => step.resource?.adopt === true);
  let owner = test;
  if ((adopts || foreignObjects.length > 0) && !hasFinalizer(test, finalizer)) {
    const marked = await setFinalizer(client, test, signal);
    if (marked === undefined) return undefined;
    owner = marked;
  }
  const current = isTracked ? status : { ...status, foreignObjects };
  if (!isTracked) {
    // Recorded before they are created, so that none is left behind.
    const tracked = await write(owner, current);
    if (tracked === undefined) return undefined;
    owner = tracked;
  }
  const steps = [...(current.steps ?? [])];
  const adopted = [...(current.adopted ?? [])];
  let retryAfterMs: number | undefined;
  for (let start = 0; start < pending.length; start += maxConcurrentActions) {
    await Promise.all(
      pending.slice(start, start + maxConcurrentActions).map(async (action) => {
        const { index, step } = action;
        const before = steps[index];
        if (before === undefined) return;
        const outcome = await performPending(action, before, contextOf(action));
        if (outcome.kind === "unavailable") retryAfterMs = backoffMs(before, scope.now());
        const entry = adoptedObject(step, outcome);
        if (entry !== undefined && !adopted.some((each) => jsonEquals(each, entry))) adopted.push(entry);
        steps[index] = afterAction(before, outcome, scope.now());
      }),
    );
  }
  const rejected = steps.flatMap((step, index) =>
    step.state === "Failed" && current.steps?.[index]?.state !== "Failed" ? [stepFailed(step)] : [],
  );
  const acted = { ...current, steps, ...(adopted.length === 0 ? {} : { adopted }) };
  const next = rejected.length > 0 || retryAfterMs !== undefined ? undefined : await decideNext(owner, acted, pending, scope);
  const written = await write(owner, next?.status ?? acted, [...rejected, ...(next?.events ?? [])]);
  if (written !== undefined) await deleteProgramPods(client, pending, steps, { test, signal });
  return retryAfterMs;
}

/**
 * Decides about a status after its actions, so that it is not written without the first look at their objects. The next reconcile performs
 * the actions of the decision. A failure is left to it too: its evidence is stored when it is written.
 */
async function decideNext(
  owner: Test,
  acted: Decision["status"],
  pending: readonly PendingAction[],
  scope: ActionScope<IntegrationTest, Decision>,
): Promise<Decision | undefined> {
  const home = acted.namespace ?? owner.metadata.namespace ?? "";
  const changed = pending.flatMap(({ index, step }) => {
    const { object, stage } = acted.steps?.[index] ?? {};
    const target = stepTarget(step, stepNamespace(frozenSpec(acted, owner.spec), step, home));
    if (stage !== "Converge" || target === undefined || object?.resourceVersion === undefined) return [];
    return [{ target, resourceVersion: object.resourceVersion }];
  });
  const next = await scope.decideNext(owner, acted, changed);
  return next === undefined || needsFailureBundle(next.status) ? undefined : next;
}

/** Stores the evidence of a failed round before the actions of its other steps change it. Resolves to undefined on a conflict. */
async function recordFailure(
  decision: Decision,
  { test, actionContext, write, now }: ActionScope<IntegrationTest>,
  program: KeelsonProgram,
): Promise<{ readonly decision: Decision; readonly test: Test } | undefined> {
  const { status } = decision;
  if (!needsFailureBundle(status)) return { decision, test };
  const { name = "", uid = "", namespace = "" } = test.metadata;
  const failureBundle = await collectFailure({
    status,
    targets: targetsOf({ spec: frozenSpec(status, test.spec), status, namespace, name, uid, program }),
    context: actionContext,
    now: iso(now()),
  });
  const written = await write(test, { ...status, failureBundle });
  return written === undefined ? undefined : { decision: { ...decision, status: { ...status, failureBundle } }, test: written };
}

/** Deletes the Pods of the programs that a stopped test still runs. Resolves to a retry delay if one could not be deleted. */
async function endPrograms(
  { status, actions }: Decision,
  { metadata }: Test,
  { client, log, signal }: ReconcileContext,
): Promise<number | undefined> {
  const { namespace = "", name: test = "", uid = "" } = metadata;
  let retryAfterMs: number | undefined;
  for (const { index } of actions.filter(({ act: what }) => what === "End")) {
    const run = { test, uid, round: status.currentRound ?? 1, index, attempt: status.steps?.[index]?.attempt ?? 1 };
    const name = podNameOf(run);
    await deleteProgramPod(client, { namespace, name }, signal).catch((error: unknown) => {
      log.warn({ err: error, pod: name }, "could not delete the Pod of a stopped program; retrying");
      retryAfterMs = endRetryMs;
    });
  }
  return retryAfterMs;
}

async function performPending(
  { act: what, step }: PendingAction,
  before: DeepReadonly<StepStatus>,
  context: ActionContext | Error,
): Promise<ActionResult> {
  if (context instanceof Error) return { kind: "unavailable", message: context.message, isOutage: true };
  return what === "Collect" ? collect(step, before, context) : performAction(step, context);
}

/** Reads the output of the program of a step. */
async function collect(
  step: PendingAction["step"],
  { object }: DeepReadonly<StepStatus>,
  { client, signal, owner }: ActionContext,
): Promise<ActionResult> {
  const name = object?.name ?? "";
  try {
    const key = { namespace: owner.metadata.namespace ?? "", name };
    const report = await collectResult(client, key, { isTool: toolActionOf(step) !== undefined, signal });
    if (report === undefined)
      return { kind: "failed", reason: "TargetLost", message: `Pod ${name} was deleted before its output was read` };
    if (report.kind === "error") return { kind: "failed", reason: report.reason, message: report.message };
    return { kind: "done", ...(object === undefined ? {} : { object }), result: report.result };
  } catch (error) {
    return outcomeOf(error, "CollectFailed");
  }
}

/** Deletes the Pods of programs whose results are stored. If that fails, they are deleted with the test. */
async function deleteProgramPods(
  client: Client,
  pending: readonly PendingAction[],
  steps: readonly DeepReadonly<StepStatus>[],
  { test, signal }: { readonly test: Test; readonly signal: AbortSignal },
): Promise<void> {
  const namespace = test.metadata.namespace ?? "";
  for (const { index, act: what } of pending) {
    const { object, result, state } = steps[index] ?? {};
    // A tool that reported an error has no result.
    if (what === "Collect" && object !== undefined && (result !== undefined || state === "Failed"))
      await deleteProgramPod(client, { namespace, name: object.name }, signal).catch(() => {});
  }
}

/** The steps to act on, with their expressions evaluated. */
function pendingActions({ status, actions }: Decision, test: Test, program: KeelsonProgram): readonly PendingAction[] {
  const spec = frozenSpec(status, test.spec);
  const plan = planOf(spec);
  const { namespace = "", name = "", uid = "" } = test.metadata;
  const input = { spec, namespace, name, uid, program } as IntegrationTestInput;
  return actions.flatMap(({ index, act: what }) => {
    if (what === "End") return [];
    const planned = plan[index];
    const resolved = planned === undefined ? undefined : resolveStep({ input }, status, index, planned);
    return resolved?.kind === "rendered" ? [{ index, act: what, step: resolved.value }] : [];
  });
}

/** The context of a step's action, or why its cluster cannot be used. */
function stepContext(
  { actionContext, cluster: connectionTo }: ActionScope<IntegrationTest>,
  test: Test,
  status: Decision["status"],
  { step, index }: Pick<PendingAction, "step" | "index">,
): ActionContext | Error {
  const spec = frozenSpec(status, test.spec);
  const { serviceAccountName } = spec;
  const attempt = `${test.metadata.uid ?? ""}/${status.currentRound ?? 1}/${index}/${status.steps?.[index]?.attempt ?? 1}`;
  const context = { ...actionContext, ...(step.create === undefined ? {} : { attempt }) };
  if (step.cluster !== undefined) {
    const connection = connectionTo(step.cluster);
    if (connection instanceof Error) return connection;
    const { client, mapKind } = connection;
    return { ...context, client, mapKind, namespace: stepNamespace(spec, step, ""), isRemote: true };
  }
  return {
    ...context,
    ...(status.namespace === undefined ? {} : { namespace: status.namespace }),
    ...(serviceAccountName === undefined ? {} : { serviceAccountName }),
  };
}

function adoptedObject({ resource }: PendingAction["step"], outcome: ActionResult) {
  if (resource?.manifest === undefined || !("adopted" in outcome) || outcome.adopted !== true) return undefined;
  const { apiVersion, kind, metadata } = resource.manifest;
  return { apiVersion: String(apiVersion), kind: String(kind), name: (metadata as { readonly name: string }).name };
}

/** Sets the finalizer before the first change that is not undone by garbage collection. */
async function setFinalizer(client: Client, test: Test, signal: AbortSignal): Promise<Test | undefined> {
  const body = { metadata: { resourceVersion: test.metadata.resourceVersion, finalizers: withFinalizer(test, finalizer) } };
  const key = { namespace: test.metadata.namespace, name: test.metadata.name ?? "" };
  return ignoreConflict(client.patch(IntegrationTest, key, { type: "merge", body }, { fieldManager, signal }));
}

async function deleteTest(client: Client, { metadata }: Test, signal: AbortSignal): Promise<void> {
  const key = { namespace: metadata.namespace, name: metadata.name ?? "" };
  try {
    await client.delete(IntegrationTest, key, { preconditions: { uid: metadata.uid ?? "" }, signal });
  } catch (error) {
    if (!isNotFound(error) && !isConflict(error)) throw error;
  }
}

/** Exponential backoff without a counter: the delay grows with the time since the step started. */
const backoffMs = (step: DeepReadonly<StepStatus>, now: number): number =>
  Math.min(Math.max(now - Date.parse(step.startedAt ?? ""), 500), 10_000);
