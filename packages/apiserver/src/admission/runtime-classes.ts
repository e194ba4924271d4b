import type { DeepReadonly, JsonObject, KubernetesObject } from "@keelson/api-machinery";
import { jsonEquals } from "@keelson/api-machinery";
import { forbidden } from "../endpoints/errors.ts";
import { listAt, objectAt, textAt } from "../registry/object-fields.ts";
import { type Store, storageKey } from "../storage/store.ts";
import type { AdmissionRequest, AdmissionStep } from "./admission.ts";

const runtimeClassKind = { group: "node.k8s.io", plural: "runtimeclasses" };

/**
 * Rejects Pods with a RuntimeClass that does not exist, and gives others the overhead, node selector and tolerations of theirs, as with the
 * admission plugin `RuntimeClass` of kube-apiserver.
 */
export function runtimeClasses(store: Pick<Store, "get">): AdmissionStep {
  return {
    name: "RuntimeClass",
    appliesTo: ({ operation, resource, subresource }) =>
      operation === "CREATE" && resource.group === "" && resource.plural === "pods" && subresource === "",
    mutate(request) {
      const spec = objectAt(request.object, "spec");
      const runtimeClass = spec === undefined ? undefined : runtimeClassOf(store, request, spec);
      if (spec === undefined || runtimeClass === undefined) return false;
      const isOverheadSet = setOverhead(request, spec, runtimeClass);
      return setScheduling(request, spec, runtimeClass) || isOverheadSet;
    },
    validate(request) {
      const spec = objectAt(request.object, "spec");
      const runtimeClass = spec === undefined ? undefined : runtimeClassOf(store, request, spec);
      const overhead = objectAt(spec, "overhead");
      if (overhead === undefined || Object.keys(overhead).length === 0) return;
      const wanted = objectAt(runtimeClass, "overhead", "podFixed");
      if (wanted === undefined) throw rejected(request, "Pod Overhead set without corresponding RuntimeClass defined Overhead");
      if (!jsonEquals(overhead, wanted))
        throw rejected(request, "Pod's Overhead doesn't match RuntimeClass's defined Overhead");
    },
  };
}

type RuntimeClass = DeepReadonly<KubernetesObject>;

function runtimeClassOf(store: Pick<Store, "get">, request: AdmissionRequest, spec: JsonObject): RuntimeClass | undefined {
  const name = textAt(spec, "runtimeClassName");
  if (name === "") return undefined;
  const found = store.get(storageKey(runtimeClassKind, "", name))?.object;
  if (found === undefined) throw rejected(request, `RuntimeClass ${JSON.stringify(name)} not found`);
  return found;
}

function setOverhead(request: AdmissionRequest, spec: JsonObject, runtimeClass: RuntimeClass): boolean {
  const wanted = objectAt(runtimeClass, "overhead", "podFixed");
  if (wanted === undefined) return false;
  const overhead = objectAt(spec, "overhead") ?? {};
  if (jsonEquals(overhead, wanted)) return false;
  if (Object.keys(overhead).length > 0) throw rejected(request, "Pod's Overhead doesn't match RuntimeClass's defined Overhead");
  spec["overhead"] = structuredClone(wanted);
  return true;
}

function setScheduling(request: AdmissionRequest, spec: JsonObject, runtimeClass: RuntimeClass): boolean {
  const wanted = Object.entries(objectAt(runtimeClass, "scheduling", "nodeSelector") ?? {});
  const selector: Record<string, unknown> = { ...objectAt(spec, "nodeSelector") };
  for (const [key, value] of wanted) {
    const own = selector[key] ?? value;
    if (own !== value) {
      const name = `runtimeClass.scheduling.nodeSelector[${key}] = ${String(value)}`;
      const why = `conflict: ${name}; pod.spec.nodeSelector[${key}] = ${String(own)}`;
      throw forbidden(request.resource, request.name, why);
    }
    selector[key] = value;
  }
  const tolerations = listAt(spec, "tolerations");
  const added = listAt(runtimeClass, "scheduling", "tolerations").filter(
    (each) => !tolerations.some((own) => jsonEquals(own, each)),
  );
  if (wanted.length > 0) spec["nodeSelector"] = selector as JsonObject;
  if (added.length > 0) spec["tolerations"] = [...tolerations, ...structuredClone(added)] as JsonObject[];
  return wanted.length > 0 || added.length > 0;
}

function rejected({ resource, name }: AdmissionRequest, why: string): Error {
  return forbidden(resource, name, `pod rejected: ${why}`);
}
