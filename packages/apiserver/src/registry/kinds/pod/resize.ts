import { type DeepReadonly, type JsonObject, jsonEquals, type KubernetesObject } from "@keelson/api-machinery";
import { forbiddenCause, invalidCause, type StatusCause } from "@keelson/api-machinery/validation";
import { keepField, listAt, mapAt, objectsAt, setField, textAt, valueAt } from "../../object-fields.ts";
import { qualityOfService } from "./quality-of-service.ts";
import type { Causes } from "../../causes.ts";

type Read = DeepReadonly<KubernetesObject>;

const containerFields = ["containers", "initContainers"];
/** Resources that can be changed in place (KEP-1287). */
const resizable: ReadonlySet<string> = new Set(["cpu", "memory"]);

/** A write through `resize` changes the resources and resize policies of containers, and nothing else. */
export function keepAllButResources(pod: KubernetesObject, old: Read): void {
  const { labels, annotations, finalizers, ownerReferences } = old.metadata;
  for (const [name, value] of Object.entries({ labels, annotations, finalizers, ownerReferences })) {
    setField(pod.metadata, name, value === undefined ? undefined : structuredClone(value));
  }
  // Added and removed containers are left to validation.
  if (containerFields.some((field) => namesAt(pod, field) !== namesAt(old, field))) return;
  const spec = structuredClone(valueAt(old, "spec")) as JsonObject;
  for (const field of containerFields) {
    const changed = objectsAt(pod, "spec", field);
    for (const [index, container] of objectsAt(spec, field).entries()) {
      const source = changed[index];
      if (source === undefined) continue;
      for (const name of ["resources", "resizePolicy"]) keepField(container, source, name);
    }
  }
  setField(pod, "spec", spec);
}

/** Validates a resize: the set of containers and the QoS class stay, only CPU and memory of containers and sidecars change, and none of their values is removed. */
export function* resizeCauses(pod: Read, old: Read): Causes {
  const [spec, before] = [valueAt(pod, "spec"), valueAt(old, "spec")];
  if (qualityOfService(spec) !== qualityOfService(before)) {
    const detail = "Pod QOS Class may not change as a result of resizing";
    yield invalidCause("spec", textAt(old, "status", "qosClass"), detail);
  }
  for (const field of containerFields) {
    if (namesAt(pod, field) !== namesAt(old, field)) {
      yield forbiddenCause(`spec.${field}`, "containers may not be added or removed on resize");
      continue;
    }
    const olds = listAt(before, field);
    for (const [index, container] of listAt(spec, field).entries()) {
      yield;
      if (field === "initContainers" && textAt(container, "restartPolicy") !== "Always") {
        if (!hasSameResources(container, olds[index])) {
          yield forbiddenCause("spec", "resources for non-sidecar init containers are immutable");
        }
        continue;
      }
      yield* removalCauses(container, olds[index], `spec.${field}[${index}].resources`);
    }
  }
  const hasSameContainers = containerFields.every((field) => namesAt(pod, field) === namesAt(old, field));
  if (hasSameContainers && !jsonEquals(otherResources(spec), otherResources(before))) {
    yield forbiddenCause("spec", "only cpu and memory resources are mutable");
  }
}

function hasSameResources(a: unknown, b: unknown): boolean {
  return ["limits", "requests"].every((field) => jsonEquals(mapAt(a, "resources", field), mapAt(b, "resources", field)));
}

function removalCauses(container: unknown, old: unknown, path: string): StatusCause[] {
  return ["limits", "requests"].flatMap((field) => {
    const now = mapAt(container, "resources", field);
    const isRemoved = Object.keys(mapAt(old, "resources", field)).some(
      (name) => resizable.has(name) && !Object.hasOwn(now, name),
    );
    return isRemoved ? [forbiddenCause(`${path}.${field}`, `resource ${field} cannot be removed`)] : [];
  });
}

/** The resources of all containers that cannot be resized. */
function otherResources(spec: unknown): unknown {
  return containerFields.flatMap((field) =>
    listAt(spec, field).map((container) =>
      ["limits", "requests"].map((kind) =>
        Object.entries(mapAt(container, "resources", kind))
          .filter(([name]) => !resizable.has(name))
          .sort(([a], [b]) => (a < b ? -1 : 1)),
      ),
    ),
  );
}

function namesAt(pod: Read, field: string): string {
  return listAt(pod, "spec", field)
    .map((container) => textAt(container, "name"))
    .join();
}
