// Writes src/http/protobuf/field-table.generated.ts: the field numbers of built-in kinds, which Kubernetes' typed Go clients
// (kubectl among them) use to send bodies as protobuf. They are read from the file descriptors inside a kubectl binary
// (1.27 to 1.33 have them); which fields are inlined or required in JSON comes from an OpenAPI document.
//
//     node scripts/generate-protobuf-fields.mjs path/to/kubectl testdata/kubernetes-openapi.json
//
// A message a line: its name, a tab, then fields `<number><flags><name>:<type>` separated by blanks. Flags: `<` its fields are those
// of the message around it in JSON, `!` zero and empty are kept. Types: s string, i integer, b boolean, d double, y bytes,
// q Quantity, n IntOrString, t Time, T MicroTime, D Duration, r RawExtension, f FieldsV1, l list of strings in a message, else the
// name of a message; `*` repeated, `%` map of strings to it.
import { readFileSync, writeFileSync } from "node:fs";
import { gunzipSync } from "node:zlib";

const [kubectl, openapi] = process.argv.slice(2);
if (!kubectl || !openapi) throw new Error("usage: generate-protobuf-fields.mjs <kubectl binary> <openapi document>");

const groups =
  /^k8s\.io\/api\/(core|apps|batch|policy|rbac|networking|coordination|discovery|events|storage|scheduling|node|admissionregistration|authentication|authorization|certificates)\/v1\/|^k8s\.io\/api\/autoscaling\/v[12]\/|^k8s\.io\/apimachinery\//;

/**
 * Fields that Go has as pointers: their zero says something, and absent something else. (Neither descriptor nor OpenAPI tells.)
 */
const pointers = new Set(
  `activeDeadlineSeconds allocateLoadBalancerNodePorts allowPrivilegeEscalation allowVolumeExpansion attachRequired
   automountServiceAccountToken averageUtilization backoffLimit backoffLimitPerIndex blockOwnerDeletion completions controller
   defaultMode deletionGracePeriodSeconds enableServiceLinks expirationSeconds failedJobsHistoryLimit fsGroup gracePeriodSeconds
   hostUsers immutable leaseDurationSeconds leaseTransitions maxFailedIndexes minDomains minReplicas mode optional orphanDependents
   parallelism partition podInfoOnMount priority privileged progressDeadlineSeconds readOnlyRootFilesystem ready replicas
   requiresRepublish revisionHistoryLimit runAsGroup runAsNonRoot runAsUser seLinuxMount serving setHostnameAsFQDN
   shareProcessNamespace stabilizationWindowSeconds startingDeadlineSeconds storageCapacity storageClassName
   successfulJobsHistoryLimit suspend targetCPUUtilizationPercentage terminating terminationGracePeriodSeconds timeoutSeconds
   tolerationSeconds ttlSecondsAfterFinished`.split(/\s+/),
);
/** Of the same name, but no pointers. */
const plain = new Set(["core.v1.Probe.timeoutSeconds", "networking.v1.IngressClassSpec.controller"]);

const special = {
  "apimachinery.pkg.api.resource.Quantity": "q",
  "apimachinery.pkg.util.intstr.IntOrString": "n",
  "meta.v1.Time": "t",
  "meta.v1.MicroTime": "T",
  "meta.v1.Duration": "D",
  "apimachinery.pkg.runtime.RawExtension": "r",
  "meta.v1.FieldsV1": "f",
};

function* fields(bytes) {
  let at = 0;
  const varint = () => {
    let value = 0n;
    for (let shift = 0n; ; shift += 7n) {
      const byte = bytes[at++];
      value |= BigInt(byte & 0x7f) << shift;
      if (byte < 0x80) return Number(value);
    }
  };
  while (at < bytes.length) {
    const tag = varint();
    if ((tag & 7) === 0) yield [tag >> 3, varint()];
    else if ((tag & 7) === 2) {
      const length = varint();
      yield [tag >> 3, bytes.subarray(at, (at += length))];
    } else if ((tag & 7) === 1) yield [tag >> 3, bytes.subarray(at, (at += 8))];
    else if ((tag & 7) === 5) yield [tag >> 3, bytes.subarray(at, (at += 4))];
    else throw new Error(`wire type ${tag & 7}`);
  }
}

function record(bytes) {
  const all = {};
  for (const [number, value] of fields(bytes)) (all[number] ??= []).push(value);
  return {
    one: (number) => all[number]?.[0],
    many: (number) => all[number] ?? [],
    text: (number) => all[number]?.[0]?.toString(),
  };
}

const shortName = (name) =>
  name
    .replace(/^\./, "")
    .replace(/^k8s\.io\.api\./, "")
    .replace(/^k8s\.io\.apimachinery\.pkg\.apis\.meta\./, "meta.")
    .replace(/^k8s\.io\./, "");

const messages = new Map();
const maps = new Map();
function readMessage(prefix, bytes) {
  const message = record(bytes);
  const name = `${prefix}.${message.text(1)}`;
  const own = message.many(2).map((field) => {
    const parsed = record(field);
    return { name: parsed.text(1), number: parsed.one(3), label: parsed.one(4), type: parsed.one(5), typeName: parsed.text(6) };
  });
  const options = message.one(7);
  if (options && record(options).one(7)) maps.set(shortName(name), own);
  else messages.set(shortName(name), own);
  for (const nested of message.many(3)) readMessage(name, nested);
}

const binary = readFileSync(kubectl);
for (let at = binary.indexOf("1f8b0800", 0, "hex"); at >= 0; at = binary.indexOf("1f8b0800", at + 1, "hex")) {
  let file;
  try {
    file = record(gunzipSync(binary.subarray(at, at + 200_000), { finishFlush: 2 }));
    if (!groups.test(file.text(1) ?? "")) continue;
  } catch {
    continue;
  }
  for (const message of file.many(4)) readMessage(file.text(2), message);
}
if (!messages.has("core.v1.Pod")) throw new Error(`${kubectl} has no file descriptors`);

const { definitions } = JSON.parse(readFileSync(openapi, "utf8"));
const definitionOf = (name) =>
  definitions[
    name.startsWith("meta.")
      ? `io.k8s.apimachinery.pkg.apis.${name}`
      : `io.k8s.${name.startsWith("apimachinery.") ? "" : "api."}${name}`
  ];
const isStringList = (name) => {
  const own = messages.get(name);
  return own?.length === 1 && own[0].name === "items" && own[0].type === 9 && own[0].label === 3 && !definitionOf(name);
};

function typeOf({ type, typeName }) {
  switch (type) {
    case 1:
      return "d";
    case 3:
    case 4:
    case 5:
    case 13:
      return "i";
    case 8:
      return "b";
    case 9:
      return "s";
    case 12:
      return "y";
    case 11: {
      const name = shortName(typeName);
      return special[name] ?? (isStringList(name) ? "l" : name);
    }
    default:
      throw new Error(`field type ${type}`);
  }
}

const reached = new Set();
function reach(name) {
  if (reached.has(name) || !messages.has(name)) return;
  reached.add(name);
  for (const field of messages.get(name)) {
    if (field.type !== 11) continue;
    const target = shortName(field.typeName);
    const entry = maps.get(target);
    if (entry) for (const part of entry) if (part.type === 11) reach(shortName(part.typeName));
    if (!entry && typeOf(field) === target) reach(target);
  }
}
for (const name of messages.keys())
  if (definitionOf(name)?.["x-kubernetes-group-version-kind"] && !name.endsWith("List")) reach(name);
reach("meta.v1.DeleteOptions");

/** What a field is called in JSON: Go's capitals survive in a few names (`uID`). */
function jsonName(definition, name) {
  const properties = Object.keys(definition?.properties ?? {});
  return properties.find((other) => other === name) ?? properties.find((other) => other.toLowerCase() === name.toLowerCase());
}

const lines = [...reached].sort().map((name) => {
  const definition = definitionOf(name);
  const own = messages.get(name).map((field) => {
    const target = field.type === 11 ? shortName(field.typeName) : "";
    const entry = maps.get(target);
    const type = entry
      ? `%${typeOf(entry.find((part) => part.number === 2))}`
      : `${field.label === 3 ? "*" : ""}${typeOf(field)}`;
    const known = jsonName(definition, field.name);
    const isInlined = definition && field.type === 11 && !entry && field.label !== 3 && !known && reached.has(target);
    if (definition?.properties && !isInlined && !known) process.stderr.write(`not in JSON: ${name}.${field.name}\n`);
    const isKept =
      definition?.required?.includes(known) ||
      (/^[sib]$/.test(type) && pointers.has(field.name) && !plain.has(`${name}.${field.name}`));
    return `${field.number}${isInlined ? "<" : isKept ? "!" : ""}${known ?? field.name}:${type}`;
  });
  return `${name}\t${own.join(" ")}`;
});

writeFileSync(
  new URL("../src/http/protobuf/field-table.generated.ts", import.meta.url),
  `// Generated by scripts/generate-protobuf-fields.mjs, where the format is described. Do not edit.\n\n/** One message a line. */\nexport const fieldTable = \`${lines.join("\n")}\`;\n`,
);
