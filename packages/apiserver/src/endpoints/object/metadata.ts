import {
  type DeepReadonly,
  isJsonObject,
  type KubernetesObject,
  type ObjectMeta,
  type OwnerReference,
  setOwn,
} from "@keelson/api-machinery";
import {
  dns1035LabelFaults,
  dns1123LabelFaults,
  dns1123SubdomainFaults,
  invalidCause,
  labelValueFaults,
  maxCauses,
  pathSegmentFaults,
  qualifiedNameFaults,
  type StatusCause,
} from "@keelson/api-machinery/validation";
import { timeFault } from "../../registry/builtin/decode-faults.ts";
import type { ServedResource } from "../../registry/served-resource.ts";
import { jsonType } from "./decode-error.ts";
import { badRequest } from "../errors.ts";

const strings = [
  "name",
  "generateName",
  "namespace",
  "uid",
  "resourceVersion",
  "creationTimestamp",
  "deletionTimestamp",
  "selfLink",
];
const times: ReadonlySet<string> = new Set(["creationTimestamp", "deletionTimestamp"]);
const numbers = ["generation", "deletionGracePeriodSeconds"];
const maps = ["labels", "annotations"];
/** Lists and the Go types of their items. */
const listTypes: Readonly<Record<string, string>> = {
  ownerReferences: "v1.OwnerReference",
  finalizers: "string",
  managedFields: "v1.ManagedFieldsEntry",
};
const lists = Object.keys(listTypes);
const known = new Set([...strings, ...numbers, ...maps, ...lists]);

/**
 * Reads metadata: null and empty values are absent, unknown fields are dropped and added to `unknown`.
 *
 * **Errors**: `BadRequest` if a field has the wrong type.
 */
export function readMetadata(value: unknown, kind: string, version: string, unknown: string[]): ObjectMeta {
  const wrong = (found: unknown, field: string, type: string): Error => {
    const why = `json: cannot unmarshal ${jsonType(found, type)} into Go struct field ${field} of type ${type}`;
    return badRequest(`${kind} in version ${JSON.stringify(version)} cannot be handled as a ${kind}: ${why}`);
  };
  if (value === undefined || value === null) return {};
  if (!isJsonObject(value)) throw wrong(value, `${kind}.metadata`, "v1.ObjectMeta");
  const result: Record<string, unknown> = {};
  for (const [name, field] of Object.entries(value)) {
    if (!known.has(name)) {
      unknown.push(`metadata.${name}`);
      continue;
    }
    if (field === null || field === "") continue;
    if (strings.includes(name)) {
      if (typeof field !== "string") throw wrong(field, `ObjectMeta.metadata.${name}`, textType(name));
      if (times.has(name) && Number.isNaN(Date.parse(field))) {
        throw badRequest(
          `${kind} in version ${JSON.stringify(version)} cannot be handled as a ${kind}: ${timeFault(field, "time")}`,
        );
      }
      result[name] = field;
    } else if (numbers.includes(name)) {
      if (typeof field !== "number" || !Number.isInteger(field)) {
        throw wrong(field, `ObjectMeta.metadata.${name}`, "int64");
      }
      result[name] = field;
    } else if (maps.includes(name)) {
      if (!isJsonObject(field)) throw wrong(field, `ObjectMeta.metadata.${name}`, "map[string]string");
      const map: Record<string, string> = {};
      for (const [key, text] of Object.entries(field)) {
        if (text !== null && typeof text !== "string") throw wrong(text, `ObjectMeta.metadata.${name}`, "string");
        setOwn(map, key, text ?? "");
      }
      if (Object.keys(map).length > 0) result[name] = map;
    } else {
      const type = listTypes[name] ?? "";
      if (!Array.isArray(field)) throw wrong(field, `ObjectMeta.metadata.${name}`, `[]${type}`);
      const stray: unknown = field.find((item) => (type === "string" ? typeof item !== "string" : !isJsonObject(item)));
      if (stray !== undefined) throw wrong(stray, `ObjectMeta.metadata.${name}`, type);
      if (name === "ownerReferences") requireReferences(field, wrong);
      if (name === "managedFields") requireEntries(field, wrong);
      // An empty managedFields list resets field management.
      if (field.length > 0 || name === "managedFields") result[name] = field;
    }
  }
  return result;
}

/** The Go type of a text. */
function textType(name: string): string {
  return name === "uid" ? "types.UID" : "string";
}

function requireReferences(
  references: readonly unknown[],
  wrong: (found: unknown, field: string, type: string) => Error,
): void {
  for (const reference of references) {
    for (const [name, value] of Object.entries(reference as Record<string, unknown>)) {
      const type = name === "controller" || name === "blockOwnerDeletion" ? "boolean" : "string";
      if (value === null || typeof value === type) continue;
      throw wrong(value, `OwnerReference.metadata.ownerReferences.${name}`, type === "boolean" ? "bool" : textType(name));
    }
  }
}

const entryTexts: ReadonlySet<string> = new Set(["manager", "operation", "apiVersion", "fieldsType", "subresource"]);

function requireEntries(entries: readonly unknown[], wrong: (found: unknown, field: string, type: string) => Error): void {
  for (const entry of entries) {
    for (const [name, value] of Object.entries(entry as Record<string, unknown>)) {
      if (value === null || typeof value === "string" || !entryTexts.has(name)) continue;
      throw wrong(value, `ManagedFieldsEntry.metadata.managedFields.${name}`, "string");
    }
  }
}

/** Problems with a name of this kind; empty if it is valid. */
function nameProblems(resource: Pick<ServedResource, "group" | "plural">, name: string): string[] {
  if (resource.group === "rbac.authorization.k8s.io" || (resource.group === "certificates.k8s.io" && name.includes(":"))) {
    return pathSegmentFaults(name);
  }
  // The kind itself requires an IP address, which may contain colons.
  if (resource.group === "networking.k8s.io" && resource.plural === "ipaddresses") return [];
  if (resource.group === "" && resource.plural === "namespaces") return dns1123LabelFaults(name);
  if (resource.group === "" && resource.plural === "services") return dns1035LabelFaults(name);
  return dns1123SubdomainFaults(name);
}

const maxAnnotationsBytes = 256 * 1024;

/** Finalizers that need no domain. */
const standardFinalizers = new Set(["foregroundDeletion", "kubernetes", "orphan"]);

/** Groups of built-in kinds whose validation accepts finalizers without a domain. */
const lenientFinalizerGroups = new Set([
  "admissionregistration.k8s.io",
  "apiextensions.k8s.io",
  "apiregistration.k8s.io",
  "policy",
]);

/** Finalizers without a domain, which may collide with others. Built-in kinds reject them, custom ones warn. */
export function unqualifiedFinalizers(metadata: DeepReadonly<ObjectMeta>): readonly string[] {
  return (metadata.finalizers ?? []).filter(isUnqualifiedFinalizer);
}

function isUnqualifiedFinalizer(name: string): boolean {
  return !name.includes("/") && !standardFinalizers.has(name);
}

/** Validates an object's metadata except its name. */
export function metadataProblems(
  { origin, group }: Pick<ServedResource, "origin" | "group">,
  metadata: ObjectMeta,
): StatusCause[] {
  const causes: StatusCause[] = [];
  const { generation = 0 } = metadata;
  if (generation < 0) causes.push(invalidCause("metadata.generation", generation, "must be greater than or equal to 0"));
  const add = (field: string, value: unknown, problems: readonly string[]): void => {
    for (const problem of causes.length < maxCauses ? problems : []) {
      causes.push(invalidCause(field, value, problem));
    }
  };
  for (const [key, value] of Object.entries(metadata.labels ?? {})) {
    if (causes.length >= maxCauses) break;
    add("metadata.labels", key, qualifiedNameFaults(key));
    add("metadata.labels", value, labelValueFaults(value));
  }
  let bytes = 0;
  for (const [key, value] of Object.entries(metadata.annotations ?? {})) {
    add("metadata.annotations", key, qualifiedNameFaults(key.toLowerCase()));
    bytes += Buffer.byteLength(key) + Buffer.byteLength(value);
  }
  if (bytes > maxAnnotationsBytes) {
    causes.push({
      reason: "FieldValueTooLong",
      field: "metadata.annotations",
      message: `Too long: may not be more than ${maxAnnotationsBytes} bytes`,
    });
  }
  const { finalizers = [] } = metadata;
  for (const finalizer of new Set(finalizers)) add("metadata.finalizers", finalizer, qualifiedNameFaults(finalizer));
  if (finalizers.includes("orphan") && finalizers.includes("foregroundDeletion")) {
    add("metadata.finalizers", finalizers, ["finalizer orphan and foregroundDeletion cannot be both set"]);
  }
  if (origin === "builtin" && !lenientFinalizerGroups.has(group)) {
    for (const [index, name] of finalizers.entries()) {
      const detail = "name is neither a standard finalizer name nor is it fully qualified";
      if (causes.length >= maxCauses) break;
      if (isUnqualifiedFinalizer(name)) add(`metadata.finalizers[${index}]`, name, [detail]);
    }
  }
  causes.push(...ownerProblems(metadata));
  return causes;
}

/** Go's zero value of a reference: requests may omit its fields. */
const emptyReference = { apiVersion: "", kind: "", name: "", uid: "" };

/** Removes owner references with a repeated uid and returns a warning for the client if there were any. */
export function withoutRepeatedOwners(metadata: ObjectMeta): { readonly metadata: ObjectMeta; readonly warning?: string } {
  const { ownerReferences = [] } = metadata;
  const uids = new Set<string>();
  const kept: OwnerReference[] = [];
  const repeated: string[] = [];
  for (const reference of ownerReferences) {
    if (uids.has(reference.uid)) repeated.push(reference.uid);
    else kept.push(reference);
    uids.add(reference.uid);
  }
  if (repeated.length === 0) return { metadata };
  const warning =
    "metadata.ownerReferences contains duplicate entries; API server dedups owner references in 1.20+, and may reject such " +
    `requests as early as 1.24; please fix your requests; duplicate UID(s) observed: ${repeated.join(", ")}`;
  return { metadata: { ...metadata, ownerReferences: kept }, warning };
}

function ownerProblems({ ownerReferences: references = [] }: ObjectMeta): StatusCause[] {
  const causes: StatusCause[] = [];
  const field = "metadata.ownerReferences";
  let firstController: string | undefined;
  for (const reference of references) {
    const { apiVersion, kind, name, uid } = { ...emptyReference, ...reference };
    const hasVersion = apiVersion !== "" && apiVersion.split("/").length <= 2;
    if (!hasVersion) causes.push(invalidCause(`${field}.apiVersion`, apiVersion, "version must not be empty"));
    if (kind === "") causes.push(invalidCause(`${field}.kind`, kind, "must not be empty"));
    if (name === "") causes.push(invalidCause(`${field}.name`, name, "must not be empty"));
    if (uid === "") causes.push(invalidCause(`${field}.uid`, uid, "must not be empty"));
    if (apiVersion === "v1" && kind === "Event") {
      causes.push(invalidCause(field, reference, "/v1, Kind=Event is disallowed from being an owner"));
    }
    if (reference.controller === true) {
      const controller = `${kind}/${name}`;
      if (firstController === undefined) firstController = controller;
      else {
        const detail = `Only one reference can have Controller set to true. Found "true" in references for ${firstController} and ${controller}`;
        causes.push(invalidCause(field, references, detail));
      }
    }
    if (causes.length >= maxCauses) break;
  }
  return causes;
}

/** Validates the name and `generateName` of an object to create. */
export function nameCauses(resource: Pick<ServedResource, "group" | "plural">, object: KubernetesObject): StatusCause[] {
  const { name, generateName } = object.metadata;
  if (!name) {
    return [
      { reason: "FieldValueRequired", field: "metadata.name", message: "Required value: name or generateName is required" },
    ];
  }
  const ofName = nameProblems(resource, name).map((problem) => invalidCause("metadata.name", name, problem));
  if (!generateName) return ofName;
  // kube-apiserver masks a trailing hyphen, since the generated suffix follows it.
  const masked = generateName.endsWith("-") ? `${generateName.slice(0, -1)}a` : generateName;
  const ofPrefix = nameProblems(resource, masked).map((problem) =>
    invalidCause("metadata.generateName", generateName, problem),
  );
  return [...ofPrefix, ...ofName];
}
