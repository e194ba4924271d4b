import type { DeepReadonly } from "@keelson/api-machinery";
import type { IntegrationTestStatus } from "../../api/integration-test.ts";
import { stringAt } from "../../functions/read.ts";
import { stepTarget } from "../../operations/step-objects.ts";
import { hasProgram } from "../../programs/program-pod.ts";
import { resolveStep } from "./advance-steps.ts";
import { planOf } from "./plan.ts";
import type { Turn } from "./turn.ts";

type Status = DeepReadonly<IntegrationTestStatus>;

/**
 * Ends the programs of stopped steps, so that none runs alongside the cleanup or after the test. Returns whether all have ended: their Pods no
 * longer exist, or their steps would have timed out by now, and the kubelet has killed them.
 */
export function endStoppedPrograms(turn: Turn, status: Status): boolean {
  const { namespace, now, observe } = turn.input;
  let haveEnded = true;
  for (const [index, planned] of planOf(turn.input.spec).entries()) {
    const { reason, result, object, deadline = "" } = status.steps?.[index] ?? {};
    const until = Date.parse(deadline);
    if (reason !== "Stopped" || result !== undefined || !hasProgram(planned.step) || now >= until) continue;
    const resolved = resolveStep(turn, status, index, planned);
    const target = resolved.kind === "error" ? undefined : stepTarget(resolved.value, status.namespace ?? namespace);
    if (target === undefined) continue;
    const observation = observe(target);
    if (observation.kind === "unknown-kind" || (observation.kind === "loading" && observation.isForbidden === true)) continue;
    const [pod] = observation.kind === "known" ? observation.objects : [];
    const isGone = observation.kind === "known" && pod === undefined && observation.hasSeen(object?.resourceVersion ?? "");
    if (isGone) continue;
    haveEnded = false;
    turn.wakes.push(until);
    if (pod !== undefined && stringAt(pod, "metadata", "deletionTimestamp") === "") turn.actions.push({ index, act: "End" });
  }
  return haveEnded;
}
