import { isJsonObject } from "@keelson/api-machinery";
import { internalTypeTable } from "./builtin-schemas.generated.ts";

/** A type of kube-apiserver's internal API, such as `core.PodSpec`. */
export type InternalType = `${string}.${string}`;

interface InternalField {
  /** Name in messages. */
  readonly shown: string;
  /** Key in the API. `^key` is a key of the parent, which the internal type moved. */
  readonly key: string;
  /** `string`, `number`, `boolean`, `quantity`, `time`, `bytes`, `json`, a name of a type, or one of these behind `*`, `[]` and `{}`. */
  readonly type: string;
  readonly isOptional: boolean;
}

/**
 * A value as kube-apiserver prints it in a message. Its internal types have Go's field names, all fields in the order of their declaration,
 * and null for absent pointers, lists and maps.
 */
export function internalValue(type: InternalType, value: unknown): unknown {
  return shown(type, value, undefined);
}

function shown(type: string, value: unknown, parent: unknown): unknown {
  if (type.startsWith("*")) {
    const isHeld = type === "*core.PodSecurityContext" && isJsonObject(parent);
    return value === undefined || value === null
      ? isHeld
        ? shown(type.slice(1), {}, parent)
        : null
      : shown(type.slice(1), value, parent);
  }
  if (type.startsWith("[]")) return Array.isArray(value) ? value.map((item) => shown(type.slice(2), item, undefined)) : null;
  if (type.startsWith("{}")) {
    if (!isJsonObject(value)) return null;
    const keys = Object.keys(value).sort();
    return Object.fromEntries(keys.map((key) => [key, shown(type.slice(2), value[key], undefined)]));
  }
  const zero = zeroValues.get(type);
  if (zero !== undefined) return value ?? zero;
  const fields = type.includes(".") ? fieldsOf(type) : undefined;
  if (fields === undefined) return value ?? (type === "json" ? {} : null);
  const result: Record<string, unknown> = {};
  const source = isJsonObject(value) ? value : {};
  for (const field of fields) {
    if (field.shown === metadataMark) Object.assign(result, inlineMetadata(source["metadata"]));
    else {
      const found = field.key.startsWith("^") ? (parent as typeof source | undefined)?.[field.key.slice(1)] : source[field.key];
      if (!field.isOptional || found !== undefined) result[field.shown] = shown(field.type, found, source);
    }
  }
  return result;
}

const zeroValues: ReadonlyMap<string, unknown> = new Map<string, unknown>([
  ["string", ""],
  ["number", 0],
  ["boolean", false],
  ["quantity", "0"],
]);

/** Stands for embedded ObjectMeta, whose fields keep the names of the API. */
const metadataMark = "+metadata";

const metadataFields = [
  "name",
  "generateName",
  "namespace",
  "uid",
  "resourceVersion",
  "generation",
  "creationTimestamp",
  "deletionTimestamp",
  "deletionGracePeriodSeconds",
  "labels",
  "annotations",
  "ownerReferences",
  "finalizers",
];

function inlineMetadata(metadata: unknown): Record<string, unknown> {
  if (!isJsonObject(metadata)) return {};
  const present = metadataFields.filter((field) => metadata[field] !== undefined);
  return Object.fromEntries(present.map((field) => [field, sortedKeys(metadata[field])]));
}

function sortedKeys(value: unknown): unknown {
  if (!isJsonObject(value)) return value;
  return Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1)));
}

function fieldsOf(type: string): readonly InternalField[] | undefined {
  const start = internalTypeTable.indexOf(`\n${type}\t`);
  if (start < 0) return undefined;
  const line = internalTypeTable.slice(start + 1, internalTypeTable.indexOf("\n", start + 1));
  return line
    .split("\t")
    .slice(1)
    .map((text) => {
      const [name = "", key = "", fieldType = "", word] = text.split(" ");
      return { shown: name, key, type: fieldType, isOptional: word === "omitempty" };
    });
}
