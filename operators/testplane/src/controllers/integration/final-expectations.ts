import type { IntegrationTestSpec, IntegrationTestStatus } from "../../api/integration-test.ts";
import type { DeepReadonly } from "@keelson/api-machinery";
import { truncate, evaluate, failureOf } from "../../evaluation/evaluate.ts";
import { type Turn, webhookTimeoutMs } from "./turn.ts";
import { defaultStepSeconds } from "./step-status.ts";
import { stepNamespace } from "../../clusters/step-namespace.ts";
import { type Observation, type Target, targetOf } from "../../evaluation/target.ts";
import { createPodsOf } from "../../evaluation/workload-pods.ts";
import { testVariables } from "../../templating/test-variables.ts";
import { iso } from "../test-status.ts";

type Status = DeepReadonly<IntegrationTestStatus>;

/** The objects that a final expectation is about. `home`: the namespace of the round. */
export function finalTarget(
  spec: DeepReadonly<IntegrationTestSpec>,
  { resource, cluster }: NonNullable<DeepReadonly<IntegrationTestSpec>["finalExpectations"]>[number],
  home: string,
): Target | undefined {
  if (resource === undefined) return undefined;
  const target = targetOf(resource, stepNamespace(spec, { cluster }, home));
  return cluster === undefined ? target : { ...target, cluster };
}

/** Checks the final expectations of a round, each until its own deadline. */
export function advanceFinal(turn: Turn, status: Status): Status {
  const { spec, namespace: own, name = "", observe, webhookState, now, wallOffsetMs = 0 } = turn.input;
  const namespace = status.namespace ?? own;
  const variables = testVariables(spec, status, { name, namespace: own });
  const before = status.finalExpectations;
  const startedAt = before?.startedAt ?? iso(now);
  const results = [];
  const failures: string[] = [];
  let isFailed = false;
  let latest = 0;
  for (const [index, final] of (spec.finalExpectations ?? []).entries()) {
    const until = Date.parse(startedAt) + (final.expectations.timeoutSeconds || defaultStepSeconds) * 1_000;
    latest = Math.max(latest, until);
    const target = finalTarget(spec, final, namespace);
    const observation: Observation =
      target === undefined ? { kind: "known", objects: [], hasSeen: () => true } : observe(target);
    const podsOf = createPodsOf(observe, target);
    // After a failure of the watch, the objects may have changed.
    if (observation.kind !== "known" || observation.error !== undefined) {
      const error = observation.kind === "unknown-kind" ? undefined : observation.error;
      failures.push(`${final.name}: cannot read the object${error ? `: ${error}` : ""}`);
      isFailed ||= now >= until || (observation.kind === "loading" && observation.isForbidden === true);
      turn.wakes.push(until);
      continue;
    }
    const scope = `${status.currentRound ?? 1}/finalExpectations[${index}]`;
    const evaluation = evaluate(final.expectations, observation.objects, {
      scope,
      webhookState,
      now,
      wallOffsetMs,
      webhookTimeoutMs,
      podsOf,
      variables,
    });
    results.push(...evaluation.results);
    if (evaluation.passed) continue;
    failures.push(`${final.name}: ${failureOf(evaluation.results)}`);
    isFailed ||= evaluation.isTerminal || now >= until;
    turn.webhookCalls.push(...evaluation.webhookCalls);
    turn.wakes.push(until, ...(evaluation.retryAtMs === undefined ? [] : [evaluation.retryAtMs]));
  }
  const common = { startedAt, deadline: iso(latest), results };
  if (failures.length === 0) return { ...status, finalExpectations: { ...common, state: "Passed", finishedAt: iso(now) } };
  const message = truncate(failures.join("; "), 1024);
  if (!isFailed) return { ...status, message, finalExpectations: { ...common, state: "Running" } };
  return { ...status, message, finalExpectations: { ...common, state: "Failed", finishedAt: iso(now) } };
}
