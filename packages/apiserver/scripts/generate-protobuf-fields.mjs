// Writes src/http/protobuf/field-table.generated.ts: the messages of built-in kinds, which Kubernetes' typed Go clients use to send and
// receive bodies as protobuf. They are read from the struct tags of Kubernetes' Go types:
//
//     node scripts/generate-protobuf-fields.mjs kubernetes/staging/src/k8s.io
//
// A message a line: its name, a tab, then fields `<number><flag><name>:<type>` in the order of their numbers, separated by blanks. Flags:
// `?` a pointer, which is only encoded if it is set; `!` no pointer, but JSON keeps its zero value; `<` its fields are those of the enclosing
// message in JSON. Types: s string, i integer, b boolean, d double, y bytes, q Quantity, n IntOrString, t Time, T MicroTime, D Duration,
// r RawExtension and JSON, f FieldsV1, l list of strings in a message, B JSONSchemaPropsOrBool, A JSONSchemaPropsOrArray,
// P JSONSchemaPropsOrStringArray, otherwise the name of a message; `*` repeated, `%` map of strings to it.
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const [sources] = process.argv.slice(2);
if (!sources) throw new Error("usage: generate-protobuf-fields.mjs <directory of the k8s.io modules>");

/** Directories of the served versions, by the name of their messages. */
const packages = new Map([
  ["meta.v1", "apimachinery/pkg/apis/meta/v1"],
  ["apiextensions.v1", "apiextensions-apiserver/pkg/apis/apiextensions/v1"],
  ["apiregistration.v1", "kube-aggregator/pkg/apis/apiregistration/v1"],
  ...`admissionregistration/v1 admissionregistration/v1beta1 apps/v1 authentication/v1 authorization/v1 autoscaling/v1 autoscaling/v2 batch/v1
    certificates/v1 coordination/v1 core/v1 discovery/v1 events/v1 flowcontrol/v1 networking/v1 node/v1 policy/v1 rbac/v1 resource/v1
    scheduling/v1 storage/v1 storagemigration/v1beta1`
    .split(/\s+/)
    .map((path) => [path.replace("/", "."), `api/${path}`]),
]);

/** Types with their own encoding. */
const special = {
  "k8s.io/apimachinery/pkg/api/resource.Quantity": "q",
  "k8s.io/apimachinery/pkg/util/intstr.IntOrString": "n",
  "k8s.io/apimachinery/pkg/runtime.RawExtension": "r",
  "k8s.io/apimachinery/pkg/types.UID": "s",
  "k8s.io/apimachinery/pkg/types.NodeName": "s",
  "k8s.io/apimachinery/pkg/apis/meta/v1.Time": "t",
  "k8s.io/apimachinery/pkg/apis/meta/v1.MicroTime": "T",
  "k8s.io/apimachinery/pkg/apis/meta/v1.Duration": "D",
  "k8s.io/apimachinery/pkg/apis/meta/v1.FieldsV1": "f",
  "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1.JSON": "r",
  "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1.JSONSchemaPropsOrBool": "B",
  "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1.JSONSchemaPropsOrArray": "A",
  "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1.JSONSchemaPropsOrStringArray": "P",
};
const scalars = { string: "s", bool: "b", int: "i", int32: "i", int64: "i", uint8: "i", uint32: "i", float64: "d" };

const importPath = (folder) => `k8s.io/${folder}`;
const messageNames = new Map([...packages].map(([name, folder]) => [importPath(folder), name]));

/** Go types by `path.Name`: either the text of a type or the fields of a struct. */
const types = new Map();
for (const folder of packages.values()) {
  for (const file of readdirSync(join(sources, folder))) {
    if (!file.endsWith(".go") || /_test\.go$|generated/.test(file)) continue;
    readGo(importPath(folder), readFileSync(join(sources, folder, file), "utf8"));
  }
}

function readGo(path, text) {
  const imports = new Map();
  for (const [, alias, imported] of text.matchAll(/^\s*(?:import )?(\w+)? ?"(k8s\.io\/[^"]+)"$/gm)) {
    imports.set(alias ?? imported.split("/").at(-1), imported);
  }
  const resolve = (type) => {
    const match = /^(\*|\[\]|map\[[\w.]+\])(.+)$/.exec(type);
    if (match) return `${match[1].replace(/\[[\w.]+\]/, "[string]")}${resolve(match[2])}`;
    if (type in scalars || type === "byte") return type;
    const [packageName, name] = type.includes(".") ? type.split(".") : [undefined, type];
    return `${packageName === undefined ? path : (imports.get(packageName) ?? packageName)}.${name}`;
  };
  for (const [, name, body = ""] of text.matchAll(/^type (\w+) struct ?\{(?:\}|\n([\s\S]*?)^\})/gm)) {
    const fields = [...body.matchAll(/^\t(?:(\w+)\s+)?([\w.*[\]]+)\s+`([^`]*)`/gm)].flatMap(([, , type, tags]) => {
      const number = /protobuf:"\w+,(\d+)/.exec(tags)?.[1];
      const json = /json:"([^"]*)"/.exec(tags)?.[1];
      if (number === undefined || json === undefined) return [];
      const [jsonName, ...options] = json.split(",");
      const protobufName = /protobuf:"[^"]*name=(\w+)/.exec(tags)?.[1];
      return [
        { number: Number(number), jsonName, protobufName, type: resolve(type), isOptional: options.includes("omitempty") },
      ];
    });
    types.set(`${path}.${name}`, { fields });
  }
  for (const [, name, type] of text.matchAll(/^(?:type |\t)(\w+) (?:= )?((?:\[\]|\*|map\[[\w.]+\])*[\w.]+)$/gm)) {
    if (!types.has(`${path}.${name}`)) types.set(`${path}.${name}`, { alias: resolve(type) });
  }
}

const reached = new Map();
const queue = [];

/** The letter or message of a type that is neither a pointer nor a list nor a map. */
function elementType(type) {
  if (type in special) return special[type];
  if (type in scalars) return scalars[type];
  if (type === "[]byte") return "y";
  const known = types.get(type);
  if (known?.alias === "[]string") return "l";
  if (known?.alias !== undefined) return elementType(known.alias);
  const at = type.lastIndexOf(".");
  const name = messageNames.get(type.slice(0, at));
  if (known === undefined || name === undefined) throw new Error(`unknown type ${type}`);
  const message = `${name}.${type.slice(at + 1)}`;
  if (!reached.has(message)) {
    reached.set(message, known.fields);
    queue.push(message);
  }
  return message;
}

/** Follows names of lists and maps. `Verbs` and `ExtraValue` are messages with a list. */
function underlying(type) {
  const alias = type in special ? undefined : types.get(type)?.alias;
  return alias === undefined || alias === "[]string" ? type : underlying(alias);
}

function fieldText({ number, jsonName, protobufName, type: declared, isOptional }) {
  const isPointer = declared.startsWith("*");
  const type = underlying(isPointer ? declared.slice(1) : declared);
  const map = /^map\[string\](.+)$/.exec(type);
  const list = type === "[]byte" ? null : /^\[\](.+)$/.exec(type);
  const shape = map ? "%" : list ? "*" : "";
  const element = elementType(map?.[1] ?? list?.[1] ?? type);
  const flag = jsonName === "" ? "<" : isPointer ? "?" : isOptional ? "" : "!";
  return `${number}${flag}${jsonName || protobufName || "inlined"}:${shape}${element}`;
}

const rootsOfMeta =
  "APIGroup APIGroupList APIResourceList APIVersions DeleteOptions ListMeta PartialObjectMetadata Status WatchEvent".split(" ");
for (const [name, folder] of packages) {
  const path = importPath(folder);
  if (name === "meta.v1") for (const root of rootsOfMeta) elementType(`${path}.${root}`);
  else {
    for (const [type, { fields }] of types) {
      const isRoot =
        fields?.[0]?.type === `${importPath(packages.get("meta.v1"))}.ObjectMeta` && fields[0].jsonName === "metadata";
      if (type.startsWith(`${path}.`) && isRoot) elementType(type);
    }
  }
}

const lines = [];
for (let message = queue.pop(); message !== undefined; message = queue.pop()) {
  const fields = reached.get(message).filter(({ type }) => !type.endsWith("/meta/v1.TypeMeta"));
  lines.push(
    `${message}\t${fields
      .sort((a, b) => a.number - b.number)
      .map(fieldText)
      .join(" ")}`,
  );
}

writeFileSync(
  new URL("../src/http/protobuf/field-table.generated.ts", import.meta.url),
  `// Generated by scripts/generate-protobuf-fields.mjs, where the format is described. Do not edit.\n\n/** One message a line. */\nexport const fieldTable = \`${lines.sort().join("\n")}\`;\n`,
);
