import { builtinNamePrefixes, builtinSchemaTable } from "./builtin-schemas.generated.ts";

/** A field of a built-in type. */
export interface DefinitionField {
  readonly name: string;
  readonly isRequired: boolean;
  /** `string`, `int32`, `[]type`, `{}type`, `any` ..., or the short name of a definition. */
  readonly type: string;
  readonly listType?: "atomic" | "set" | "map";
  readonly listMapKeys?: readonly string[];
  readonly mapType?: "atomic" | "granular";
  readonly patchStrategy?: string;
  readonly patchMergeKey?: string;
  /** The type in Kubernetes' sources, if it differs from what `type` suggests: `v1.ServiceType`. */
  readonly goType?: string;
  /** The struct embedded in the type that the field belongs to: `VolumeSource`. */
  readonly embeddedIn?: string;
  /**
   * How Go encodes the field: a `pointer` keeps zero values that were sent, `always` writes zero values also if they were not sent,
   * `omitzero` omits empty structs. Without it zero values are omitted and structs written.
   */
  readonly encoding?: "pointer" | "always" | "omitzero";
  /** The default in OpenAPI documents, if `encoding` does not imply it. Null: there is none. */
  readonly publishedDefault?: unknown;
  /** The values that OpenAPI documents list for the field, its items or its values. */
  readonly publishedValues?: readonly unknown[];
}

/** A type of the Kubernetes API from the generated table. */
export interface Definition {
  /** `core.v1.Pod`; {@link longName} gives the name in OpenAPI documents. */
  readonly name: string;
  readonly groupVersionKind?: { readonly group: string; readonly version: string; readonly kind: string };
  readonly mapType?: "atomic" | "granular";
  /** For types without fields, such as Time. */
  readonly type?: string;
  readonly format?: string;
  /** The fields that OpenAPI documents require, if they differ from those that are required here, or their order does. */
  readonly publishedRequired?: readonly string[];
  /** `x-kubernetes-unions`. */
  readonly unions?: readonly unknown[];
  readonly fields: readonly DefinitionField[];
}

/** Lines by definition name, and definition names by `group/version/Kind`. Built on first use, in under a millisecond. */
interface TableIndex {
  readonly lines: ReadonlyMap<string, string>;
  readonly byKind: ReadonlyMap<string, string>;
}

let index: TableIndex | undefined;
const definitions = new Map<string, Definition>();

function tableIndex(): TableIndex {
  if (index !== undefined) return index;
  const lines = new Map<string, string>();
  const byKind = new Map<string, string>();
  for (const line of builtinSchemaTable.split("\n")) {
    const tab = line.indexOf("\t");
    if (tab < 0) continue;
    const name = line.slice(0, tab);
    lines.set(name, line);
    if (line.startsWith("gvk=", tab + 1)) {
      const end = line.slice(tab + 5).search(/[ \t]/);
      byKind.set(line.slice(tab + 5, tab + 5 + end), name);
    }
  }
  index = { lines, byKind };
  return index;
}

/** The definition with this short name. Throws a `TypeError` if there is none: only this package names them. */
export function definitionOf(name: string): Definition {
  const known = definitions.get(name);
  if (known !== undefined) return known;
  const line = tableIndex().lines.get(name);
  if (line === undefined) throw new TypeError(`built-in definition ${JSON.stringify(name)} not found`);
  const definition = parseLine(line);
  definitions.set(name, definition);
  return definition;
}

/** Whether `type` is the name of a definition, not a scalar, list or map. */
export function isDefinitionName(type: string): boolean {
  return tableIndex().lines.has(type);
}

/** The short name of a built-in kind's definition. */
export function definitionNameOfKind(group: string, version: string, kind: string): string | undefined {
  return tableIndex().byKind.get(`${group}/${version}/${kind}`);
}

/** Every short name, in order. */
export function definitionNames(): readonly string[] {
  return [...tableIndex().lines.keys()];
}

/** The name of a definition in OpenAPI documents: `io.k8s.api.core.v1.Pod`. */
export function longName(name: string): string {
  for (const [short, long] of builtinNamePrefixes) if (name.startsWith(short)) return long + name.slice(short.length);
  return name;
}

function parseLine(line: string): Definition {
  const [name = "", head = "", ...fields] = line.split("\t");
  const words = parseWords(head.split(" "));
  const [group = "", version = "", kind = ""] = (words.get("gvk") ?? "").split("/");
  const mapType = words.get("map");
  const type = words.get("type");
  const format = words.get("format");
  return {
    name,
    ...(kind === "" ? {} : { groupVersionKind: { group, version, kind } }),
    ...(isMapType(mapType) ? { mapType } : {}),
    ...(type === undefined ? {} : { type }),
    ...(format === undefined ? {} : { format }),
    ...jsonWord(words, "required", "publishedRequired"),
    ...jsonWord(words, "unions", "unions"),
    fields: fields.map(parseField),
  };
}

function parseField(text: string): DefinitionField {
  const [first = "", ...rest] = text.split(" ");
  const colon = first.indexOf(":");
  const isRequired = first[colon - 1] === "!";
  const words = parseWords(rest);
  const list = /^(atomic|set|map)(?:\((.*)\))?$/.exec(words.get("list") ?? "");
  const mapType = words.get("map");
  const patchStrategy = words.get("patch");
  const patchMergeKey = words.get("merge");
  const goType = words.get("go");
  const embeddedIn = words.get("in");
  const encoding = words.get("json");
  return {
    name: first.slice(0, isRequired ? colon - 1 : colon),
    isRequired,
    type: first.slice(colon + 1),
    ...(list === null ? {} : { listType: list[1] as "atomic" | "set" | "map" }),
    ...(list?.[2] === undefined ? {} : { listMapKeys: list[2].split(",") }),
    ...(isMapType(mapType) ? { mapType } : {}),
    ...(patchStrategy === undefined ? {} : { patchStrategy }),
    ...(patchMergeKey === undefined ? {} : { patchMergeKey }),
    ...(goType === undefined ? {} : { goType }),
    ...(embeddedIn === undefined ? {} : { embeddedIn }),
    ...(encoding === "pointer" || encoding === "always" || encoding === "omitzero" ? { encoding } : {}),
    ...jsonWord(words, "default", "publishedDefault"),
    ...jsonWord(words, "enum", "publishedValues"),
  };
}

function isMapType(value: string | undefined): value is "atomic" | "granular" {
  return value === "atomic" || value === "granular";
}

/** The JSON value of a word under the name of a property, if the word is there. */
function jsonWord(words: ReadonlyMap<string, string>, word: string, property: string): Record<string, unknown> {
  const text = words.get(word);
  return text === undefined ? {} : { [property]: JSON.parse(text.replaceAll("%20", " ")) as unknown };
}

function parseWords(words: readonly string[]): Map<string, string> {
  const result = new Map<string, string>();
  for (const word of words) {
    const equals = word.indexOf("=");
    if (equals > 0) result.set(word.slice(0, equals), word.slice(equals + 1));
  }
  return result;
}
