// Reduces testdata/kubernetes-openapi.json (schema facts of Kubernetes 1.35) to src/registry/builtin/builtin-schemas.generated.ts:
// one line a definition, which builtin-schemas.ts reads when that definition is first requested. Go types that the schemas do not
// show, but messages of the decoder name, are in testdata/kubernetes-go-types.json.
//
//   node scripts/generate-builtin-schemas.mjs            writes the file
//   node scripts/generate-builtin-schemas.mjs --check    fails when the committed file is not what it would write
//
// A line is `name <tab> head <tab> field <tab> field ...`. The head holds words: `gvk=group/version/Kind`, `map=atomic`,
// `type=string`, `format=...`. A field is `name:type`, `name!:type` when it is required, followed by words: `list=atomic|set`,
// `list=map(key,key)`, `map=atomic|granular`, `patch=strategy,strategy`, `merge=key`, `go=v1.ServiceType`,
// `in=VolumeSource` (the embedded struct that the field belongs to), `json=pointer|always|omitzero`, and JSON with %20 for blanks for OpenAPI
// documents: `default=...` if the encoding does not imply it (null: none), `enum=[...]` of the field, its items or its values. The head
// has `required=[...]` if OpenAPI documents require other fields or in another order, and `unions=[...]`. A type is `string`, `boolean`, `int32`,
// `int64`, `double`, `byte`, `date-time`, `object`, `integer`, `number`, `any`, `[]type`, `{}type` or the name of a definition.
//
// testdata/kubernetes-internal-types.json has the fields of kube-apiserver's internal types, which some messages show, as
// `name key type [omitempty]`. src/registry/builtin/internal-value.ts describes them.
import { readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

const inputs = ["kubernetes-openapi.json", "flowcontrol-openapi.json", "additional-openapi.json"].map((name) =>
  fileURLToPath(new URL(`../testdata/${name}`, import.meta.url)),
);
const goTypes = JSON.parse(readFileSync(new URL("../testdata/kubernetes-go-types.json", import.meta.url), "utf8"));
const internalTypes = JSON.parse(readFileSync(new URL("../testdata/kubernetes-internal-types.json", import.meta.url), "utf8"));
const output = fileURLToPath(new URL("../src/registry/builtin/builtin-schemas.generated.ts", import.meta.url));

/** Short prefixes of names, as they stand in the table, and what they stand for. The first that fits counts. */
const prefixes = [
  ["meta.v1.", "io.k8s.apimachinery.pkg.apis.meta.v1."],
  ["apimachinery.", "io.k8s.apimachinery.pkg."],
  ["apiextensions.v1.", "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1."],
  ["apiregistration.v1.", "io.k8s.kube-aggregator.pkg.apis.apiregistration.v1."],
  ["", "io.k8s.api."],
];

const scalars = new Map([
  ["string", "string"],
  ["string/byte", "byte"],
  ["string/date-time", "date-time"],
  ["boolean", "boolean"],
  ["integer", "integer"],
  ["integer/int32", "int32"],
  ["integer/int64", "int64"],
  ["number", "number"],
  ["number/double", "double"],
  ["object", "object"],
]);

function shortName(name) {
  for (const [short, long] of prefixes) if (name.startsWith(long)) return short + name.slice(long.length);
  throw new Error(`${name}: no prefix for this name; add one to "prefixes"`);
}

function expectKeys(value, allowed, where) {
  for (const key of Object.keys(value))
    if (!allowed.includes(key)) throw new Error(`${where}: ${key} is new; teach the generator`);
}

function typeOf(schema, where) {
  if (schema.$ref !== undefined) return shortName(schema.$ref.replace("#/definitions/", ""));
  if (schema.type === "array") return `[]${typeOf(schema.items, where)}`;
  if (schema.type === "object" && schema.additionalProperties !== undefined)
    return `{}${typeOf(schema.additionalProperties, where)}`;
  if (schema.type === undefined) return "any";
  const scalar = scalars.get(schema.format === undefined ? schema.type : `${schema.type}/${schema.format}`);
  if (scalar === undefined)
    throw new Error(`${where}: type ${schema.type} with format ${schema.format} is new; teach the generator`);
  return scalar;
}

const fieldKeys = [
  "$ref",
  "type",
  "format",
  "items",
  "additionalProperties",
  "x-kubernetes-list-type",
  "x-kubernetes-list-map-keys",
  "x-kubernetes-map-type",
  "x-kubernetes-patch-strategy",
  "x-kubernetes-patch-merge-key",
  "default",
  "enum",
];

/** A word with a JSON value. Blanks separate words, so they are escaped. */
const jsonWord = (name, value) => `${name}=${JSON.stringify(value).replaceAll(" ", "%20")}`;

function field(name, schema, isRequired, where, goType) {
  expectKeys(schema, fieldKeys, where);
  const words = [`${name}${isRequired ? "!" : ""}:${typeOf(schema, where)}`];
  const listType = schema["x-kubernetes-list-type"];
  const mapKeys = schema["x-kubernetes-list-map-keys"];
  if (listType !== undefined) words.push(`list=${listType}${mapKeys === undefined ? "" : `(${mapKeys.join(",")})`}`);
  if (schema["x-kubernetes-map-type"] !== undefined) words.push(`map=${schema["x-kubernetes-map-type"]}`);
  if (schema["x-kubernetes-patch-strategy"] !== undefined) words.push(`patch=${schema["x-kubernetes-patch-strategy"]}`);
  if (schema["x-kubernetes-patch-merge-key"] !== undefined) words.push(`merge=${schema["x-kubernetes-patch-merge-key"]}`);
  if (goType?.type !== undefined) words.push(`go=${goType.type}`);
  if (goType?.in !== undefined) words.push(`in=${goType.in}`);
  if (goType?.json !== undefined) words.push(`json=${goType.json}`);
  if (schema.default !== undefined) words.push(jsonWord("default", schema.default));
  const values = schema.enum ?? schema.items?.enum ?? schema.additionalProperties?.enum;
  if (values !== undefined) words.push(jsonWord("enum", values));
  return words.join(" ");
}

function line(name, schema) {
  expectKeys(
    schema,
    [
      "type",
      "format",
      "properties",
      "required",
      "x-kubernetes-group-version-kind",
      "x-kubernetes-map-type",
      "x-kubernetes-unions",
      "x-required",
    ],
    name,
  );
  const head = [];
  const kinds = schema["x-kubernetes-group-version-kind"] ?? [];
  // DeleteOptions and WatchEvent are said to belong to every group; the core one is enough.
  const kind = kinds.find(({ group }) => group === "") ?? kinds[0];
  if (kind !== undefined) head.push(`gvk=${kind.group}/${kind.version}/${kind.kind}`);
  if (schema["x-kubernetes-map-type"] !== undefined) head.push(`map=${schema["x-kubernetes-map-type"]}`);
  if (schema.properties === undefined) {
    if (schema.type !== undefined) head.push(`type=${schema.type}`);
    if (schema.format !== undefined) head.push(`format=${schema.format}`);
  }
  const published = schema["x-required"] ?? schema.required ?? [];
  const inferred = (schema.required ?? []).toSorted();
  if (JSON.stringify(published) !== JSON.stringify(inferred)) head.push(jsonWord("required", published));
  if (schema["x-kubernetes-unions"] !== undefined) head.push(jsonWord("unions", schema["x-kubernetes-unions"]));
  const required = new Set(schema.required);
  const fields = Object.keys(schema.properties ?? {})
    .sort()
    .map((key) => field(key, schema.properties[key], required.has(key), `${name}.${key}`, goTypes[shortName(name)]?.[key]));
  return [shortName(name), head.join(" "), ...fields].join("\t");
}

const definitions = Object.assign({}, ...inputs.map((input) => JSON.parse(readFileSync(input, "utf8")).definitions));
const lines = Object.keys(definitions)
  .sort()
  .map((name) => line(name, definitions[name]));
for (const text of lines) if (/[`\\]|\$\{/.test(text)) throw new Error(`cannot stand in a template literal: ${text}`);

const text = `// Generated by scripts/generate-builtin-schemas.mjs, where the format is described. Do not edit.

/** Short prefixes of definition names and what they stand for. The first that fits counts. */
export const builtinNamePrefixes: readonly (readonly [string, string])[] = ${JSON.stringify(prefixes)};

/** One definition a line. */
export const builtinSchemaTable: string = \`
${lines.join("\n")}
\`;

/** One internal type a line: its name and fields, separated by tabs. */
export const internalTypeTable: string = \`
${Object.entries(internalTypes)
  .map(([name, fields]) => [name, ...fields].join("\t"))
  .join("\n")}
\`;
`;

if (process.argv.includes("--check")) {
  let committed = "";
  try {
    committed = readFileSync(output, "utf8");
  } catch (error) {
    if (error.code !== "ENOENT") throw error;
  }
  if (committed !== text) {
    console.error(`${output} is stale: run node packages/apiserver/scripts/generate-builtin-schemas.mjs`);
    process.exitCode = 1;
  }
} else {
  writeFileSync(output, text);
}
