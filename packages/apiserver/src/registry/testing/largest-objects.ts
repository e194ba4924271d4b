import type { KubernetesObject } from "@keelson/api-machinery";
import {
  type Definition,
  type DefinitionField,
  definitionNameOfKind,
  definitionOf,
  isDefinitionName,
} from "../builtin/definition.ts";
import type { ServedResource } from "../served-resource.ts";

/** An object of a kind, in which one list or map has as many items as fit. */
export interface LargeObject {
  /** The path of the collection: `spec.containers[].env`. */
  readonly path: string;
  /** The type that the collection belongs to, and its field: `core.v1.Container.env`. */
  readonly type: string;
  /** The number of items. */
  readonly items: number;
  readonly object: KubernetesObject;
}

type Json = Record<string, unknown>;

/** Sets a value in an object. */
type Place = (root: Json) => Json;

/** The values of an item, and the maximum number of items. */
interface Limits {
  readonly values: number;
}

/** Texts that are valid in the fields of this name; `#` becomes the number of the item. Other texts are `t#`. */
const texts: Readonly<Record<string, string>> = {
  apiGroup: "",
  apiVersion: "v1",
  cidr: "10.0.0.0/8",
  devicePath: "/dev/x#",
  effect: "NoSchedule",
  endPort: "",
  expression: "true",
  host: "h#.example.com",
  hostname: "h#.example.com",
  image: "i:1",
  ip: "10.0.0.1",
  key: "k#",
  kind: "ServiceAccount",
  mountPath: "/m#",
  name: "n#",
  operator: "Exists",
  path: "p#",
  pathType: "Exact",
  protocol: "TCP",
  request: "r",
  scope: "Cluster",
  status: "True",
  topologyKey: "kubernetes.io/hostname",
  type: "T#",
  value: "v#",
  whenUnsatisfiable: "ScheduleAnyway",
};

/** The objects of a kind, one for each list and map of its type with at most `depth` nested types. */
export function largestObjects(resource: ServedResource, { values }: Limits): readonly LargeObject[] {
  const name = definitionNameOfKind(resource.group, resource.version, resource.kind);
  if (name === undefined) return [];
  const objects: LargeObject[] = [];
  const base: Json = { ...sampleOf(definitionOf(name), 0, []), apiVersion: resource.storageApiVersion, kind: resource.kind };
  base["metadata"] = { name: "n0", ...(resource.scope === "Namespaced" ? { namespace: "default" } : {}) };
  const visit = (definition: Definition, path: string, seen: readonly string[], place: Place): void => {
    for (const field of definition.fields) {
      if (path === "" && field.name === "metadata") continue;
      const at = path === "" ? field.name : `${path}.${field.name}`;
      const item = itemType(field.type);
      if (item !== undefined) {
        const object = structuredClone(base);
        const collection = filled(field.type, item, values);
        place(object)[field.name] = collection;
        objects.push({
          path: at,
          type: `${definition.name}.${field.name}`,
          items: Object.keys(collection).length,
          object: object as unknown as KubernetesObject,
        });
      }
      const inner = item ?? field.type;
      if (!isDefinitionName(inner) || seen.includes(inner)) continue;
      visit(definitionOf(inner), item === undefined ? at : `${at}[]`, [...seen, inner], (root) => {
        const owner = place(root);
        const made = sampleOf(definitionOf(inner), 0, [inner]);
        const found = owner[field.name];
        if (item === undefined) {
          const one = typeof found === "object" && found !== null ? (found as Json) : made;
          owner[field.name] = one;
          return one;
        }
        const first = Array.isArray(found) && found.length > 0 ? (found[0] as Json) : made;
        owner[field.name] = field.type.startsWith("{}") ? { k0: first } : [first];
        return first;
      });
    }
  };
  visit(definitionOf(name), "", [name], (root) => root);
  return objects;
}

function itemType(type: string): string | undefined {
  return type.startsWith("[]") || type.startsWith("{}") ? type.slice(2) : undefined;
}

/** A collection with about `values` values. */
function filled(type: string, item: string, values: number): object {
  const size = sizeOf(valueOf("", item, 0, []));
  const count = Math.max(1, Math.floor(values / size));
  const items = Array.from({ length: count }, (_, index) => valueOf(type.startsWith("{}") ? "value" : "name", item, index, []));
  return type.startsWith("[]") ? items : Object.fromEntries(items.map((value, index) => [`k${index}`, value]));
}

function sizeOf(value: unknown): number {
  if (typeof value !== "object" || value === null) return 1;
  const parts = Object.values(value);
  return 1 + parts.reduce((sum: number, part) => sum + sizeOf(part), 0);
}

/** A value of a type: the item `index` of a collection. */
function valueOf(name: string, type: string, index: number, seen: readonly string[]): unknown {
  const item = itemType(type);
  if (item !== undefined)
    return type.startsWith("[]") ? [valueOf(name, item, index, seen)] : { [`k${index}`]: valueOf("value", item, index, seen) };
  if (type === "boolean") return false;
  if (/^(int32|int64|integer|number|double)$/.test(type)) return (index % 60_000) + 1;
  if (type === "apimachinery.api.resource.Quantity") return "1";
  if (type === "apimachinery.util.intstr.IntOrString") return (index % 60_000) + 1;
  if (type === "byte") return "eA==";
  if (/Time$|date-time/.test(type)) return "2026-01-01T00:00:00Z";
  if (!isDefinitionName(type)) return (texts[name] ?? "t#").replaceAll("#", String(index));
  const definition = definitionOf(type);
  if (definition.fields.length === 0 || seen.includes(type)) return {};
  return sampleOf(definition, index, [...seen, type]);
}

/** An object of a type with its required fields, and the optional ones that identify it. */
function sampleOf(definition: Definition, index: number, seen: readonly string[]): Json {
  const identifying: readonly string[] = ["name", "key", "port", "protocol", "mountPath", "path", "value", "cidr"];
  const isNeeded = ({ name, isRequired, type }: DefinitionField): boolean =>
    isRequired || (identifying.includes(name) && !isDefinitionName(type)) || name === "spec";
  return Object.fromEntries(
    definition.fields
      .filter((field) => isNeeded(field) && !(isDefinitionName(field.type) && seen.includes(field.type)))
      .map(({ name, type }) => [name, valueOf(name, type, index, [...seen, definition.name])]),
  );
}
