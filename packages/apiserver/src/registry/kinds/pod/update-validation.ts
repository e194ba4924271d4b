import { type DeepReadonly, draft, jsonEquals, type JsonObject, type KubernetesObject } from "@keelson/api-machinery";
import { forbiddenCause, invalidCause, type StatusCause } from "@keelson/api-machinery/validation";
import * as check from "../../field-checks.ts";
import { gatedUpdateCauses } from "./gated-update-validation.ts";
import { listAt, objectAt, objectsAt, setField, textAt, valueAt } from "../../object-fields.ts";
import { type Causes, eachItem } from "../../causes.ts";

type Read = DeepReadonly<KubernetesObject>;

const changeable =
  "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`," +
  "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations)," +
  "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

/**
 * Rejects changes to the immutable part of a Pod's spec. Mutable are images, an earlier deadline, additional tolerations, and removal of
 * scheduling gates. The subresource `binding` sets the node; it alone changes spec and status in one write.
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
  const rest = jsonEquals(fixedSpec(pod, pod, old), fixedSpec(old, pod, old)) ? [] : [forbiddenCause("spec", changeable)];
  yield* rest;
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

/** The spec without mutable fields; `pod` and `old` determine what else may change. */
function fixedSpec(object: Read, pod: Read, old: Read): JsonObject {
  const spec = draft(objectAt(object, "spec")) ?? {};
  for (const field of ["containers", "initContainers"]) {
    for (const container of objectsAt(spec, field)) setField(container, "image", undefined);
  }
  for (const field of ["activeDeadlineSeconds", "tolerations", "schedulingGates"]) delete spec[field];
  const grace = valueAt(old, "spec", "terminationGracePeriodSeconds");
  if (typeof grace === "number" && grace < 0 && valueAt(pod, "spec", "terminationGracePeriodSeconds") === 1) {
    delete spec["terminationGracePeriodSeconds"];
  }
  // Only a binding changes status and spec together.
  if (textAt(old, "spec", "nodeName") === "" && !jsonEquals(valueAt(pod, "status"), valueAt(old, "status"))) {
    delete spec["nodeName"];
  }
  // A gated Pod may be restricted to fewer nodes.
  if (listAt(old, "spec", "schedulingGates").length > 0) {
    delete spec["nodeSelector"];
    const affinity = objectAt(spec, "affinity");
    delete affinity?.["nodeAffinity"];
    if (affinity !== undefined && Object.keys(affinity).length === 0) delete spec["affinity"];
  }
  return spec;
}
