import { type DeepReadonly, draft, jsonEquals, type JsonObject, type KubernetesObject } from "@keelson/api-machinery";
import { forbiddenCause, invalidCause, type StatusCause } from "@keelson/api-machinery/validation";
import * as check from "../../../field-checks.ts";
import { gatedUpdateCauses } from "./gated-update-validation.ts";
import { listAt, objectAt, objectsAt, setField, textAt, valueAt } from "../../../object-fields.ts";
import { internalValue } from "../../../builtin/internal-value.ts";
import { type Causes, eachItem } from "../../../causes.ts";
import { valueDifference } from "../../../unified-diff.ts";

type Read = DeepReadonly<KubernetesObject>;

const changeable =
  "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`," +
  "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations)," +
  "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

/**
 * Rejects changes to the immutable part of a Pod's spec. Mutable are images, an earlier deadline, additional tolerations, and removal of
 * scheduling gates. The `binding` subresource sets the node; it alone changes spec and status in one write.
 */
export function* podUpdateCauses(pod: Read, old: Read): Causes {
  for (const field of ["containers", "initContainers"]) {
    const now = objectsAt(pod, "spec", field);
    if (now.length !== objectsAt(old, "spec", field).length) {
      yield forbiddenCause(`spec.${field}`, "pod updates may not add or remove containers");
      return;
    }
    for (const [index, container] of now.entries()) {
      yield;
      yield* check.nonEmpty(`spec.${field}[${index}].image`, textAt(container, "image"));
    }
  }
  const deadline = deadlineCauses(pod, old);
  yield* deadline;
  if (deadline.length > 0 && valueAt(pod, "spec", "activeDeadlineSeconds") !== undefined) return;
  if (!startsWith(listAt(pod, "spec", "tolerations"), listAt(old, "spec", "tolerations"))) {
    const detail = "existing toleration can not be modified except its tolerationSeconds";
    yield forbiddenCause("spec.tolerations", detail);
  }
  yield* gateCauses(pod, old);
  const isGated = listAt(old, "spec", "schedulingGates").length > 0;
  if (isGated) yield* gatedUpdateCauses(pod, old);
  const fixed = fixedSpec(pod, old);
  if (jsonEquals(fixed, valueAt(old, "spec"))) return;
  const [before, after] = [valueAt(old, "spec"), fixed].map((spec) => internalValue("core.PodSpec", spec));
  yield forbiddenCause("spec", `${changeable}\n${valueDifference(before, after)}`);
}

function deadlineCauses(pod: Read, old: Read): StatusCause[] {
  const now = valueAt(pod, "spec", "activeDeadlineSeconds");
  const before = valueAt(old, "spec", "activeDeadlineSeconds");
  const field = "spec.activeDeadlineSeconds";
  if (typeof before !== "number") return [];
  if (typeof now !== "number") return [invalidCause(field, null, "must not update from a positive integer to nil value")];
  return now > before ? [invalidCause(field, now, "must be less than or equal to previous value")] : [];
}

function* gateCauses(pod: Read, old: Read): Causes {
  const before = new Set(listAt(old, "spec", "schedulingGates").map((gate) => textAt(gate, "name")));
  yield* eachItem(listAt(pod, "spec", "schedulingGates"), (gate, index) => {
    const name = textAt(gate, "name");
    if (before.has(name)) return [];
    const detail = `only deletion is allowed, but found new scheduling gate '${name}'`;
    return [forbiddenCause(`spec.schedulingGates[${index}].name`, detail)];
  });
}

/** Whether every old toleration still exists, at any index and for any duration. */
function startsWith(now: readonly unknown[], before: readonly unknown[]): boolean {
  const tolerated = new Set(now.map(matched));
  return before.every((toleration) => tolerated.has(matched(toleration)));
}

/** The taints that a toleration matches. */
function matched(toleration: unknown): string {
  return JSON.stringify(["key", "operator", "value", "effect"].map((field) => textAt(toleration, field)));
}

/** The new spec with the old values of mutable fields: what differs from the old spec may not change. */
function fixedSpec(pod: Read, old: Read): JsonObject {
  const spec = draft(objectAt(pod, "spec")) ?? {};
  const before = draft(objectAt(old, "spec")) ?? {};
  for (const field of ["containers", "initContainers"]) {
    const olds = objectsAt(before, field);
    for (const [index, container] of objectsAt(spec, field).entries()) setField(container, "image", olds[index]?.["image"]);
  }
  const restored = ["activeDeadlineSeconds", "tolerations", "schedulingGates"];
  const grace = before["terminationGracePeriodSeconds"];
  if (typeof grace === "number" && grace < 0 && spec["terminationGracePeriodSeconds"] === 1) {
    restored.push("terminationGracePeriodSeconds");
  }
  // Only a binding changes status and spec together.
  if (textAt(before, "nodeName") === "" && !jsonEquals(valueAt(pod, "status"), valueAt(old, "status"))) {
    restored.push("nodeName");
  }
  const isGated = listAt(before, "schedulingGates").length > 0;
  // A gated Pod may be restricted to fewer nodes.
  if (isGated) restored.push("nodeSelector");
  for (const field of restored) setField(spec, field, before[field]);
  if (isGated) {
    const affinity = { ...objectAt(spec, "affinity") };
    setField(affinity, "nodeAffinity", valueAt(before, "affinity", "nodeAffinity"));
    setField(spec, "affinity", Object.keys(affinity).length > 0 ? affinity : undefined);
  }
  return spec;
}
