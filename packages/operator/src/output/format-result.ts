import type { DeepReadonly, KubernetesObject, ResourceType } from "@keelson/api-machinery";
import { stringify } from "yaml";
import type { CommandContext } from "../operator.ts";
import { type OutputFormat, outputFlag } from "./output-format.ts";

/** `result` in the format of `--output`; `text` returns the form for people. */
export function formatResult({ flags }: Pick<CommandContext, "flags">, result: unknown, text: () => string): string {
  return formatValue(outputFlag.read(flags), result, text);
}

/** A value in a format that is not `name`. */
function formatValue(format: OutputFormat, value: unknown, text: () => string): string {
  switch (format.kind) {
    case "json":
      return `${JSON.stringify(value, undefined, 2)}\n`;
    case "yaml":
      return stringify(value, { aliasDuplicateObjects: false });
    case "jsonpath":
      return format.template(value);
    default:
      return text();
  }
}

/** An object with its type. */
export interface TypedObject {
  readonly type: Pick<ResourceType, "group" | "kind">;
  readonly object: DeepReadonly<KubernetesObject>;
}

/**
 * Objects in a format, as kubectl prints them: `json`, `yaml` and `jsonpath` apply to a `List`, or to the object itself if `isSingle`. `table`
 * returns the form for people.
 */
export function formatObjects(
  format: OutputFormat,
  objects: readonly TypedObject[],
  { table, isSingle = false }: { readonly table: () => string; readonly isSingle?: boolean },
): string {
  if (format.kind === "name") {
    return objects.map(({ type, object }) => `${qualifiedKind(type)}/${object.metadata.name ?? ""}\n`).join("");
  }
  const items = objects.map(({ object }) => withoutManagedFields(object));
  const value = isSingle && items.length === 1 ? items[0] : { apiVersion: "v1", kind: "List", items };
  return formatValue(format, value, table);
}

const qualifiedKind = ({ group, kind }: TypedObject["type"]): string =>
  `${kind.toLowerCase()}${group === "" ? "" : `.${group}`}`;

/** As with kubectl, the record of field managers is not shown. */
function withoutManagedFields(object: TypedObject["object"]): TypedObject["object"] {
  const { managedFields: _, ...metadata } = object.metadata;
  return { ...object, metadata };
}
