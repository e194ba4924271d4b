import { type DeepReadonly, jsonEquals, type KubernetesObject } from "@keelson/api-machinery";
import { isQuantity } from "@keelson/api-machinery/quantity";
import {
  dns1123SubdomainFaults,
  duplicateCause,
  forbiddenCause,
  invalidCause,
  notSupportedCause,
  qualifiedNameFaults,
  requiredCause,
  type StatusCause,
} from "@keelson/api-machinery/validation";
import { age } from "../../../table/human-duration.ts";
import { ageColumn, builtinResource, column } from "../../builtin/builtin-resource.ts";
import { internalValue } from "../../builtin/internal-value.ts";
import * as check from "../../field-checks.ts";
import { mapAt, ensureMap, listAt, setField, textAt, valueAt } from "../../object-fields.ts";
import type { ServedResource } from "../../served-resource.ts";
import { provisionerCauses } from "./storage-classes.ts";
import { type Causes, createRepeatCheck, eachItem } from "../../causes.ts";

type Read = DeepReadonly<KubernetesObject>;

/** The kinds through which CSI drivers and their sidecars work together. The node mounts no CSI volumes itself. */
export function csiKinds(): readonly ServedResource[] {
  return [drivers, nodes, storageCapacities, volumeAttachments, volumeAttributesClasses];
}

const group = "storage.k8s.io";
const version = "v1";

/** Whether tokens are sent in Secrets rather than in volume attributes. */
const secretsField = "serviceAccountTokenInSecrets";

const drivers = builtinResource({
  group,
  version,
  kind: "CSIDriver",
  plural: "csidrivers",
  scope: "Cluster",
  columns: [
    column("AttachRequired", "Whether volumes are attached before they are mounted.", { type: "boolean" }),
    column("PodInfoOnMount", "Whether the driver needs information about the Pod.", { type: "boolean" }),
    column("StorageCapacity", "Whether the scheduler considers the driver's capacity.", { type: "boolean" }),
    column("TokenRequests", "The audiences of the tokens that the driver needs."),
    column("RequiresRepublish", "Whether volumes are published again periodically.", { type: "boolean" }),
    column("Modes", "The lifecycle modes of its volumes."),
    ageColumn,
  ],
  cells: (driver, now) => [
    valueAt(driver, "spec", "attachRequired") !== false,
    valueAt(driver, "spec", "podInfoOnMount") === true,
    valueAt(driver, "spec", "storageCapacity") === true,
    listAt(driver, "spec", "tokenRequests")
      .map((request) => textAt(request, "audience"))
      .join(",") || "<unset>",
    valueAt(driver, "spec", "requiresRepublish") === true,
    listAt(driver, "spec", "volumeLifecycleModes").join(",") || "<none>",
    age(driver.metadata.creationTimestamp, now),
  ],
  strategy: {
    hasGeneration: false,
    default: (driver) => {
      const spec = ensureMap(driver, "spec");
      spec["attachRequired"] ??= true;
      for (const name of ["podInfoOnMount", "storageCapacity", "requiresRepublish", "seLinuxMount"]) spec[name] ??= false;
      spec["fsGroupPolicy"] ??= "ReadWriteOnceWithFSType";
      if (listAt(spec, "volumeLifecycleModes").length === 0) spec["volumeLifecycleModes"] = ["Persistent"];
    },
    *validate(driver) {
      const modes = listAt(driver, "spec", "volumeLifecycleModes");
      const policies = ["File", "None", "ReadWriteOnceWithFSType"];
      yield* check.oneOf("spec.fsGroupPolicy", valueAt(driver, "spec", "fsGroupPolicy"), policies);
      const requests = listAt(driver, "spec", "tokenRequests");
      yield* tokenRequestCauses(requests, "spec.tokenRequests");
      yield* eachItem(modes, (mode) =>
        mode === "Persistent" || mode === "Ephemeral"
          ? []
          : [notSupportedCause("spec.volumeLifecycleModes", mode, ["Persistent", "Ephemeral"])],
      );
      yield* periodCauses("spec.nodeAllocatableUpdatePeriodSeconds", driver);
      const inSecrets = valueAt(driver, "spec", secretsField);
      if (inSecrets === undefined || requests.length > 0) return;
      yield invalidCause(`spec.${secretsField}`, inSecrets, `${secretsField} is set but no tokenRequests are specified`);
    },
    warnings: (driver) => {
      const advice = "if supported by this CSI driver, set to true to prevent possible logging of tokens in volume attributes";
      const isUnset = listAt(driver, "spec", "tokenRequests").length > 0 && valueAt(driver, "spec", secretsField) === undefined;
      return isUnset ? [`spec.${secretsField} is unset; ${advice}`] : [];
    },
    validateUpdate: (driver, old) =>
      ["attachRequired", "volumeLifecycleModes"].flatMap((name) => immutable(`spec.${name}`, driver, old, "spec", name)),
  },
});

const nodes = builtinResource({
  group,
  version,
  kind: "CSINode",
  plural: "csinodes",
  scope: "Cluster",
  columns: [column("Drivers", "The number of drivers on the node.", { type: "integer" }), ageColumn],
  cells: (node, now) => [listAt(node, "spec", "drivers").length, age(node.metadata.creationTimestamp, now)],
  strategy: {
    hasGeneration: false,
    // `drivers` may be empty.
    *validate(node) {
      const isRepeated = createRepeatCheck();
      yield* eachItem(listAt(node, "spec", "drivers"), function* (driver, index) {
        const field = `spec.drivers[${index}]`;
        const name = textAt(driver, "name");
        yield* check.driverName(`${field}.name`, name);
        yield* nodeIdCauses(`${field}.nodeID`, textAt(driver, "nodeID"));
        yield* check.atLeast(`${field}.allocatable.count`, valueAt(driver, "allocatable", "count"));
        yield* isRepeated(name) ? [duplicateCause(`${field}.name`, name)] : [];
        yield* topologyKeyCauses(field, listAt(driver, "topologyKeys"));
      });
    },
    validateUpdate: driverUpdateCauses,
  },
});

const storageCapacities = builtinResource({
  group,
  version,
  kind: "CSIStorageCapacity",
  plural: "csistoragecapacities",
  scope: "Namespaced",
  strategy: {
    hasGeneration: false,
    *validate(capacity) {
      yield* check.labelSelector("nodeTopology", valueAt(capacity, "nodeTopology"));
      yield* subdomainCauses("storageClassName", textAt(capacity, "storageClassName"));
      yield* eachItem(["capacity", "maximumVolumeSize"], (name) => {
        const value = valueAt(capacity, name);
        const isNegative = isQuantity(value) && String(value).startsWith("-");
        return isNegative ? [invalidCause(name, value, "must be greater than or equal to 0")] : [];
      });
    },
    validateUpdate: (capacity, old) =>
      ["nodeTopology", "storageClassName"].flatMap((name) => immutable(name, capacity, old, name)),
  },
});

const volumeAttachments = builtinResource({
  group,
  version,
  kind: "VolumeAttachment",
  plural: "volumeattachments",
  scope: "Cluster",
  hasStatus: true,
  columns: [
    column("Attacher", "The driver that attaches the volume.", { format: "name" }),
    column("PV", "The volume."),
    column("Node", "The node that the volume is attached to."),
    column("Attached", "Whether it is attached.", { type: "boolean" }),
    ageColumn,
  ],
  cells: (attachment, now) => [
    textAt(attachment, "spec", "attacher"),
    textAt(attachment, "spec", "source", "persistentVolumeName"),
    textAt(attachment, "spec", "nodeName"),
    valueAt(attachment, "status", "attached") === true,
    age(attachment.metadata.creationTimestamp, now),
  ],
  strategy: {
    hasGeneration: false,
    prepareForCreate: (attachment) => setField(attachment, "status", { attached: false }),
    *validate(attachment) {
      const source = valueAt(attachment, "spec", "source");
      const hasVolume = valueAt(source, "persistentVolumeName") !== undefined;
      const hasInline = valueAt(source, "inlineVolumeSpec") !== undefined;
      const attacher = textAt(attachment, "spec", "attacher");
      const volume = valueAt(source, "persistentVolumeName");
      yield* check.nonEmpty("spec.attacher", attacher);
      yield* hasVolume || hasInline
        ? []
        : [requiredCause("spec.source", "must specify exactly one of inlineVolumeSpec and persistentVolumeName")];
      yield* hasVolume && hasInline
        ? [forbiddenCause("spec.source", "must specify exactly one of inlineVolumeSpec and persistentVolumeName")]
        : [];
      yield* volume === "" && !hasInline
        ? [requiredCause("spec.source.persistentVolumeName", "must specify non empty persistentVolumeName")]
        : [];
      yield* subdomainCauses("spec.nodeName", textAt(attachment, "spec", "nodeName"));
      yield* check.driverName("spec.attacher", attacher);
      yield* typeof volume === "string" ? subdomainCauses("spec.source.persistentVolumeName", volume) : [];
    },
    validateUpdate(attachment, old) {
      const spec = valueAt(attachment, "spec");
      if (jsonEquals(spec, valueAt(old, "spec"))) return [];
      return [invalidCause("spec", internalValue("storage.VolumeAttachmentSpec", spec), "field is immutable")];
    },
  },
});

const volumeAttributesClasses = builtinResource({
  group,
  version,
  kind: "VolumeAttributesClass",
  plural: "volumeattributesclasses",
  shortNames: ["vac"],
  scope: "Cluster",
  columns: [column("DriverName", "The driver of the class."), ageColumn],
  cells: (object, now) => [textAt(object, "driverName"), age(object.metadata.creationTimestamp, now)],
  strategy: {
    hasGeneration: false,
    *validate(object) {
      yield* provisionerCauses("driverName", textAt(object, "driverName"));
      yield* Object.keys(mapAt(object, "parameters")).length === 0
        ? [requiredCause("parameters", "must contain at least one key/value pair")]
        : [];
    },
    validateUpdate: (object, old) =>
      ["driverName", "parameters"].flatMap((name) =>
        jsonEquals(valueAt(object, name), valueAt(old, name))
          ? []
          : [forbiddenCause(name, `updates to ${name} are forbidden.`)],
      ),
  },
});

const minTokenSeconds = 600;
const maxTokenSeconds = 2 ** 32;

/** Validates the tokens that a driver needs, one for each audience. */
function* tokenRequestCauses(requests: readonly unknown[], path: string): Causes {
  const audiences = new Set<string>();
  yield* eachItem(requests, (request, index) => {
    const at = `${path}[${index}]`;
    const audience = textAt(request, "audience");
    if (audiences.has(audience)) return [duplicateCause(`${at}.audience`, audience)];
    audiences.add(audience);
    const field = `${at}.expirationSeconds`;
    const seconds = valueAt(request, "expirationSeconds");
    if (typeof seconds !== "number") return [];
    if (seconds < minTokenSeconds) return [invalidCause(field, seconds, "may not specify a duration less than 10 minutes")];
    if (seconds <= maxTokenSeconds) return [];
    return [invalidCause(field, seconds, "may not specify a duration larger than 2^32 seconds")];
  });
}

const minUpdateSeconds = 10;

function periodCauses(field: string, driver: Read): StatusCause[] {
  const seconds = valueAt(driver, "spec", "nodeAllocatableUpdatePeriodSeconds");
  if (typeof seconds !== "number" || seconds >= minUpdateSeconds) return [];
  return [invalidCause(field, seconds, `must be greater than or equal to ${minUpdateSeconds} seconds`)];
}

const maxNodeId = 192;

function nodeIdCauses(field: string, id: string): StatusCause[] {
  if (id === "") return [requiredCause(field)];
  return id.length > maxNodeId ? [invalidCause(field, id, `must be ${maxNodeId} characters or less`)] : [];
}

/** A driver can be added and removed. Of an existing one, only the allocatable number of volumes may change (KEP-4876). */
function* driverUpdateCauses(node: Read, old: Read): Causes {
  const before = new Map(listAt(old, "spec", "drivers").map((driver) => [textAt(driver, "name"), driver]));
  yield* eachItem(listAt(node, "spec", "drivers"), (driver) => {
    const known = before.get(textAt(driver, "name"));
    if (known === undefined || jsonEquals(shownDriver(known), shownDriver(driver))) return [];
    return [invalidCause("spec.drivers", shownDriver(driver), "field is immutable")];
  });
}

/** The immutable part of a driver as kube-apiserver prints it: in its internal type. */
function shownDriver(driver: unknown): object {
  return {
    Name: textAt(driver, "name"),
    NodeID: textAt(driver, "nodeID"),
    TopologyKeys: valueAt(driver, "topologyKeys") ?? null,
    Allocatable: null,
  };
}

/** Validates the labels of a driver's topology. As in kube-apiserver, causes name the driver. */
function* topologyKeyCauses(field: string, keys: readonly unknown[]): Causes {
  const isRepeated = createRepeatCheck();
  yield* eachItem(keys, (key) => {
    if (typeof key !== "string") return [];
    const causes = key === "" ? [requiredCause(field)] : [];
    if (isRepeated(key)) causes.push(duplicateCause(field, key));
    return [...causes, ...qualifiedNameFaults(key).map((fault) => invalidCause(field, key, fault))];
  });
}

/** A DNS-1123 subdomain, which must not be empty. */
function subdomainCauses(field: string, value: string): StatusCause[] {
  return dns1123SubdomainFaults(value).map((fault) => invalidCause(field, value, fault));
}

function immutable(field: string, object: Read, old: Read, ...path: readonly string[]): StatusCause[] {
  const value = valueAt(object, ...path);
  return jsonEquals(value, valueAt(old, ...path)) ? [] : [invalidCause(field, value, "field is immutable")];
}
