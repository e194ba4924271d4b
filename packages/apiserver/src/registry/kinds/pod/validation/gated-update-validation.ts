import { type DeepReadonly, jsonEquals, type KubernetesObject } from "@keelson/api-machinery";
import { invalidCause, type StatusCause } from "@keelson/api-machinery/validation";
import { listAt, mapAt, valueAt } from "../../../object-fields.ts";
import { type Causes, eachItem } from "../../../causes.ts";

type Read = DeepReadonly<KubernetesObject>;

const required = ["requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms"] as const;

/** An update of a Pod with scheduling gates may only restrict it to fewer nodes (KEP-3838). */
export function* gatedUpdateCauses(pod: Read, old: Read): Causes {
  yield* nodeSelectorCauses(pod, old);
  yield* nodeAffinityCauses(pod, old);
}

function nodeSelectorCauses(pod: Read, old: Read): StatusCause[] {
  const now = mapAt(pod, "spec", "nodeSelector");
  const isAddition = Object.entries(mapAt(old, "spec", "nodeSelector")).every(([key, value]) => now[key] === value);
  if (isAddition) return [];
  const detail = "only additions to spec.nodeSelector are allowed (no mutations or deletions)";
  return [invalidCause("spec.nodeSelector", valueAt(pod, "spec", "nodeSelector") ?? null, detail)];
}

function* nodeAffinityCauses(pod: Read, old: Read): Causes {
  const path = ["spec", "affinity", "nodeAffinity", ...required];
  const [now, before] = [pod, old].map((each) => listAt(each, ...path));
  if (now === undefined || before === undefined || before.length === 0) return;
  const field = path.join(".");
  if (now.length !== before.length) {
    const detail = "no additions/deletions to non-empty NodeSelectorTerms list are allowed";
    yield invalidCause(field, now.length === 0 ? null : now, detail);
    return;
  }
  yield* eachItem(before, (term, index) =>
    hasOnlyAdditions(now[index], term)
      ? []
      : [invalidCause(`${field}[${index}]`, now[index], "only additions are allowed (no mutations or deletions)")],
  );
}

/** Whether a term keeps its requirements. One without any matches nothing, so it cannot get some. */
function hasOnlyAdditions(now: unknown, before: unknown): boolean {
  const fields = ["matchExpressions", "matchFields"];
  const isEmpty = (term: unknown): boolean => fields.every((field) => listAt(term, field).length === 0);
  if (isEmpty(before)) return isEmpty(now);
  return fields.every((field) => {
    const kept = listAt(now, field);
    return listAt(before, field).every((requirement, index) => jsonEquals(kept[index], requirement));
  });
}
