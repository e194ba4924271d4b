import type { ServedResource } from "../registry/served-resource.ts";
import { valueAt } from "../registry/object-fields.ts";
import { age } from "./human-duration.ts";

/** A resource whose Table shows Scales (autoscaling/v1) of its objects instead of the objects. */
export function scaleResource(resource: ServedResource): ServedResource {
  const { rowConditions: _, ...rest } = resource;
  return { ...rest, columns, cells };
}

const columns: ServedResource["columns"] = [
  {
    name: "Desired",
    type: "integer",
    jsonPath: ".spec.replicas",
    description: "The number of replicas that the Scale requests.",
  },
  { name: "Available", type: "integer", jsonPath: ".status.replicas", description: "The number of replicas that exist." },
  {
    name: "Age",
    type: "string",
    jsonPath: ".metadata.creationTimestamp",
    description: "The time since the object was created.",
  },
];

const cells: ServedResource["cells"] = (scale, now) => [
  replicas(valueAt(scale, "spec", "replicas")),
  replicas(valueAt(scale, "status", "replicas")),
  age(scale.metadata.creationTimestamp ?? "", now),
];

const replicas = (value: unknown): number => (typeof value === "number" ? value : 0);
