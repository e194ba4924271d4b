import { forbiddenCause, invalidCause, requiredCause, type StatusCause, tooLongCause } from "@keelson/api-machinery/validation";
import { type Causes, eachItem } from "../../../causes.ts";
import * as check from "../../../field-checks.ts";
import { listAt, textAt, valueAt } from "../../../object-fields.ts";
import { handlerCauses } from "./handler-validation.ts";

const restartPolicies = ["Always", "Never", "OnFailure"];
const maxRestartRules = 20;
const maxExitCodes = 255;

/** Validates a container's own restart policy and its rules by exit code (KEP-5307). */
function* restartCauses(container: unknown, path: string, isSidecar: boolean): Causes {
  const policy = valueAt(container, "restartPolicy");
  const rules = listAt(container, "restartPolicyRules");
  const field = `${path}.restartPolicyRules`;
  if (isSidecar) {
    const detail = "restartPolicyRules are not allowed for init containers with restart policy Always";
    yield* rules.length > 0 ? [forbiddenCause(field, detail)] : [];
    return;
  }
  yield* check.oneOf(`${path}.restartPolicy`, policy, restartPolicies);
  if (policy === undefined && rules.length > 0) {
    yield requiredCause(`${path}.restartPolicy`, "must specify restartPolicy when restart rules are used");
  }
  if (rules.length > maxRestartRules) yield tooLongCause(field, maxRestartRules);
  yield* eachItem(rules, (rule, index) => restartRuleCauses(rule, `${field}[${index}]`));
}

function restartRuleCauses(rule: unknown, path: string): StatusCause[] {
  const causes = check.oneOf(`${path}.action`, textAt(rule, "action"), ["Restart"]);
  const codes = valueAt(rule, "exitCodes");
  if (codes === undefined) return [...causes, requiredCause(`${path}.exitCodes`, "must be specified")];
  causes.push(...check.oneOf(`${path}.exitCodes.operator`, textAt(codes, "operator"), ["In", "NotIn"]));
  if (listAt(codes, "values").length > maxExitCodes) causes.push(tooLongCause(`${path}.exitCodes.values`, maxExitCodes));
  return causes;
}

/** Validates the probes, hooks and restart policy of a container that is not ephemeral. */
export function* lifeCauses(container: unknown, path: string, field: string, graceSeconds: unknown): Causes {
  const policy = valueAt(container, "restartPolicy");
  const isSidecar = field === "initContainers" && policy === "Always";
  yield* restartCauses(container, path, isSidecar);
  const mayProbe = field === "containers" || isSidecar;
  for (const name of ["livenessProbe", "readinessProbe", "startupProbe"]) {
    const probe = valueAt(container, name);
    if (probe === undefined) continue;
    const at = `${path}.${name}`;
    if (!mayProbe) {
      yield forbiddenCause(at, "may not be set for init containers without restartPolicy=Always");
      continue;
    }
    yield* handlerCauses(probe, at, graceSeconds);
    for (const number of ["initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"]) {
      yield* check.atLeast(`${at}.${number}`, valueAt(probe, number));
    }
    const probeGrace = valueAt(probe, "terminationGracePeriodSeconds");
    yield* check.atLeast(`${at}.terminationGracePeriodSeconds`, probeGrace, 1);
    if (name === "readinessProbe" && probeGrace !== undefined) {
      yield invalidCause(`${at}.terminationGracePeriodSeconds`, probeGrace, "must not be set for readinessProbes");
    }
    const threshold = valueAt(probe, "successThreshold");
    if (name !== "readinessProbe" && typeof threshold === "number" && threshold !== 1) {
      yield invalidCause(`${at}.successThreshold`, threshold, "must be 1");
    }
  }
  for (const hook of ["postStart", "preStop"]) {
    const handler = valueAt(container, "lifecycle", hook);
    if (handler === undefined) continue;
    if (mayProbe) yield* handlerCauses(handler, `${path}.lifecycle.${hook}`, graceSeconds);
    else yield forbiddenCause(`${path}.lifecycle`, "may not be set for init containers without restartPolicy=Always");
  }
}
