import {
  dns1123LabelFaults,
  forbiddenCause,
  invalidCause,
  notSupportedCause,
  requiredCause,
  type StatusCause,
} from "@keelson/api-machinery/validation";
import * as check from "../../field-checks.ts";
import { listAt, mapAt, textAt, valueAt } from "../../object-fields.ts";
import { type Causes, eachItem } from "../../causes.ts";

/** Where a volume source is used. Secrets of a PersistentVolume carry a namespace. */
export type VolumeOwner = "Pod" | "PersistentVolume";

/** The field of a source in kube-apiserver's messages, which differs from the object's in one case. */
export function shownSourceField(type: string): string {
  return type === "gcePersistentDisk" ? "persistentDisk" : type;
}

/** The types of sources in the order in which kube-apiserver validates them: the first one of a volume counts. */
const sourceOrder: Readonly<Record<VolumeOwner, readonly string[]>> = {
  Pod: (
    "emptyDir hostPath gitRepo gcePersistentDisk awsElasticBlockStore secret nfs iscsi glusterfs flocker persistentVolumeClaim rbd cinder " +
    "cephfs quobyte downwardAPI fc flexVolume configMap azureFile vsphereVolume photonPersistentDisk portworxVolume azureDisk storageos " +
    "projected scaleIO csi ephemeral image"
  ).split(" "),
  PersistentVolume: (
    "hostPath gcePersistentDisk awsElasticBlockStore glusterfs flocker nfs rbd quobyte cephfs iscsi cinder fc flexVolume azureFile " +
    "vsphereVolume photonPersistentDisk portworxVolume azureDisk scaleIO local storageos csi"
  ).split(" "),
};

/** Names of surplus sources in messages, where they are not those of the object. */
const surplusNames: Readonly<Record<string, string>> = { cephfs: "cephFS", downwardAPI: "downwarAPI" };

/** The source of a volume that counts, and a cause for each other one. `path` is that of the sources. */
export function chooseSource(
  types: readonly string[],
  path: string,
  owner: VolumeOwner,
): { readonly source: string | undefined; readonly surplus: readonly StatusCause[] } {
  const order = sourceOrder[owner];
  const [source, ...more] = types.toSorted((a, b) => order.indexOf(a) - order.indexOf(b));
  const surplus = more.map((type) =>
    forbiddenCause(`${path}.${surplusNames[type] ?? type}`, "may not specify more than 1 volume type"),
  );
  return { source, surplus };
}

/**
 * Validates a source at `path` of a type that both Pods and PersistentVolumes have; other types have no causes. Source:
 * `ValidatePersistentVolumeSpec` and `validateVolumeSource` of kube-apiserver 1.35.
 */
export function* volumeSourceCauses(type: string, source: unknown, path: string, owner: VolumeOwner): Causes {
  const required = (requiredTexts[type] ?? []).flatMap((field) => check.nonEmpty(`${path}.${field}`, textAt(source, field)));
  yield* required;
  yield* specialCauses(type, source, path, owner);
}

/** Texts that must not be empty. */
const requiredTexts: Readonly<Record<string, readonly string[]>> = {
  awsElasticBlockStore: ["volumeID"],
  azureDisk: ["diskName", "diskURI"],
  azureFile: ["secretName", "shareName"],
  cinder: ["volumeID"],
  flexVolume: ["driver"],
  gcePersistentDisk: ["pdName"],
  gitRepo: ["repository"],
  glusterfs: ["endpoints", "path"],
  iscsi: ["targetPortal"],
  local: ["path"],
  nfs: ["server", "path"],
  photonPersistentDisk: ["pdID"],
  portworxVolume: ["volumeID"],
  scaleIO: ["gateway", "system", "volumeName"],
  storageos: ["volumeName"],
  vsphereVolume: ["volumePath"],
};

function specialCauses(type: string, source: unknown, path: string, owner: VolumeOwner): Causes {
  switch (type) {
    case "awsElasticBlockStore":
    case "gcePersistentDisk":
      return rangeCauses(`${path}.partition`, valueAt(source, "partition"), "must be between 1 and 255, inclusive");
    case "azureDisk":
      return azureDiskCauses(source, path);
    case "azureFile":
      return owner === "PersistentVolume" && valueAt(source, "secretNamespace") === ""
        ? [requiredCause(`${path}.secretNamespace`)]
        : [];
    case "cephfs":
      return listAt(source, "monitors").length === 0 ? [requiredCause(`${path}.monitors`)] : [];
    case "cinder":
      return secretCauses(source, path, owner);
    case "fc":
      return fibreChannelCauses(source, path);
    case "flexVolume":
      return optionCauses(source, path);
    case "flocker":
      return flockerCauses(source, path);
    case "glusterfs":
      return owner === "PersistentVolume" ? endpointsNamespaceCauses(source, path) : [];
    case "hostPath": {
      const host = textAt(source, "path");
      if (host === "") return [requiredCause(`${path}.path`)];
      const types = check.oneOf(`${path}.type`, valueAt(source, "type"), hostPathTypes);
      return [...backstepCauses(`${path}.path`, host), ...types];
    }
    case "iscsi":
      return iscsiCauses(source, path, owner);
    case "local":
      return backstepCauses(`${path}.path`, textAt(source, "path"));
    case "nfs": {
      const exported = textAt(source, "path");
      return exported.startsWith("/") ? [] : [invalidCause(`${path}.path`, exported, "must be an absolute path")];
    }
    case "quobyte":
      return quobyteCauses(source, path);
    case "rbd":
      return [
        ...(listAt(source, "monitors").length === 0 ? [requiredCause(`${path}.monitors`)] : []),
        ...check.nonEmpty(`${path}.image`, textAt(source, "image")),
      ];
    case "storageos":
      return storageOsCauses(source, path, owner);
    default:
      return [];
  }
}

const hostPathTypes = ["", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"];

function backstepCauses(field: string, path: string): StatusCause[] {
  return path.split("/").includes("..") ? [invalidCause(field, path, "must not contain '..'")] : [];
}

function rangeCauses(field: string, value: unknown, rule: string): StatusCause[] {
  return typeof value === "number" && (value < 0 || value > 255) ? [invalidCause(field, value, rule)] : [];
}

const lunRule = "must be between 0 and 255, inclusive";

function* secretCauses(source: unknown, path: string, owner: VolumeOwner): Causes {
  const secret = valueAt(source, "secretRef");
  if (secret === undefined) return;
  const fields = owner === "PersistentVolume" ? ["name", "namespace"] : ["name"];
  yield* eachItem(fields, (field) => check.nonEmpty(`${path}.secretRef.${field}`, textAt(secret, field)));
}

const cachingModes = ["None", "ReadOnly", "ReadWrite"];
const diskKinds = ["Dedicated", "Managed", "Shared"];
const managedUris = ["/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}"];
const blobUris = ["https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd"];

function azureDiskCauses(source: unknown, path: string): StatusCause[] {
  const uri = textAt(source, "diskURI");
  const kind = valueAt(source, "kind");
  const causes = [
    ...check.oneOf(`${path}.cachingMode`, valueAt(source, "cachingMode"), cachingModes),
    ...check.oneOf(`${path}.kind`, kind, diskKinds),
  ];
  if (kind === undefined) return causes;
  const isManaged = kind === "Managed";
  const isOfKind = uri.startsWith(isManaged ? "/subscriptions/" : "https://");
  if (!isOfKind) causes.push(notSupportedCause(`${path}.diskURI`, uri, isManaged ? managedUris : blobUris));
  return causes;
}

function fibreChannelCauses(source: unknown, path: string): StatusCause[] {
  const names = listAt(source, "targetWWNs");
  const ids = listAt(source, "wwids");
  const field = `${path}.targetWWNs`;
  if (names.length === 0) {
    return ids.length === 0 ? [requiredCause(field, "must specify either targetWWNs or wwids, but not both")] : [];
  }
  const both = "targetWWNs and wwids can not be specified simultaneously";
  const unit = valueAt(source, "lun");
  return [
    ...(ids.length === 0 ? [] : [invalidCause(field, names, both)]),
    ...(unit === undefined
      ? [requiredCause(`${path}.lun`, "lun is required if targetWWNs is specified")]
      : rangeCauses(`${path}.lun`, unit, lunRule)),
  ];
}

function* optionCauses(source: unknown, path: string): Causes {
  yield* eachItem(Object.keys(mapAt(source, "options")), (key) => {
    const [namespace = ""] = key.split("/", 1);
    if (!/\.(?:kubernetes|k8s)\.io$/.test(`.${namespace.toLowerCase()}`)) return [];
    return [invalidCause(`${path}.options[${key}]`, key, "kubernetes.io and k8s.io namespaces are reserved")];
  });
}

function flockerCauses(source: unknown, path: string): StatusCause[] {
  const name = textAt(source, "datasetName");
  const uuid = textAt(source, "datasetUUID");
  const causes: StatusCause[] = [];
  if (name === "" && uuid === "") causes.push(requiredCause(path, "one of datasetName and datasetUUID is required"));
  if (name !== "" && uuid !== "") {
    causes.push(invalidCause(path, "resource", "datasetName and datasetUUID can not be specified simultaneously"));
  }
  if (name.includes("/")) causes.push(invalidCause(`${path}.datasetName`, name, "must not contain '/'"));
  return causes;
}

function endpointsNamespaceCauses(source: unknown, path: string): StatusCause[] {
  const namespace = valueAt(source, "endpointsNamespace");
  if (typeof namespace !== "string") return [];
  const field = `${path}.endpointsNamespace`;
  if (namespace !== "") return dns1123LabelFaults(namespace).map((fault) => invalidCause(field, namespace, fault));
  return [invalidCause(field, namespace, "if the endpointnamespace is set, it must be a valid namespace name")];
}

function iscsiCauses(source: unknown, path: string, owner: VolumeOwner): StatusCause[] {
  const name = textAt(source, "iqn");
  const initiator = valueAt(source, "initiatorName");
  const isAuthenticated = valueAt(source, "chapAuthDiscovery") === true || valueAt(source, "chapAuthSession") === true;
  const secret = valueAt(source, "secretRef");
  return [
    ...(name === "" ? [requiredCause(`${path}.iqn`)] : iscsiNameCauses(`${path}.iqn`, name, owner)),
    ...rangeCauses(`${path}.lun`, valueAt(source, "lun"), lunRule),
    ...(isAuthenticated && secret === undefined ? [requiredCause(`${path}.secretRef`)] : []),
    ...(owner === "PersistentVolume" && secret !== undefined
      ? check.nonEmpty(`${path}.secretRef.name`, textAt(secret, "name"))
      : []),
    ...(typeof initiator === "string" ? iscsiNameCauses(`${path}.initiatorname`, initiator, owner) : []),
  ];
}

/** The forms of iSCSI names by prefix. kube-apiserver does not anchor the first, whose search would take quadratic time here. */
const iscsiNames: Readonly<Record<string, RegExp>> = {
  iqn: /^iqn\.\d{4}-\d{2}\.[0-9A-Za-z.-]+:[^,;*&$|\s]+$/,
  eui: /^eui.[0-9A-Za-z]{16}$/,
  naa: /^naa.[0-9A-Za-z]{32}$/,
};

function iscsiNameCauses(field: string, name: string, owner: VolumeOwner): StatusCause[] {
  const form = iscsiNames[name.slice(0, 3)];
  if (form?.test(name) === true) return [];
  const knowsPrefix = form !== undefined || owner === "PersistentVolume";
  return [
    invalidCause(field, name, knowsPrefix ? "must be valid format" : "must be valid format starting with iqn, eui, or naa"),
  ];
}

/** `host:port` as Go's `net.SplitHostPort` accepts it. */
const hostAndPort = /^(?:\[[^[\]]*\]|[^:[\]]*):[^:[\]]*$/;

function quobyteCauses(source: unknown, path: string): StatusCause[] {
  const registry = textAt(source, "registry");
  const rule = "must be a host:port pair or multiple pairs separated by commas";
  const causes: StatusCause[] = [];
  if (registry === "") causes.push(requiredCause(`${path}.registry`, rule));
  else if (textAt(source, "tenant").length >= 65) {
    causes.push(requiredCause(`${path}.tenant`, "must be a UUID and may not exceed a length of 64 characters"));
  } else {
    const faulty = registry.split(",").filter((pair) => !hostAndPort.test(pair));
    causes.push(...faulty.map(() => invalidCause(`${path}.registry`, registry, rule)));
  }
  return [...causes, ...check.nonEmpty(`${path}.volume`, textAt(source, "volume"))];
}

function* storageOsCauses(source: unknown, path: string, owner: VolumeOwner): Causes {
  const labels = ["volumeName", "volumeNamespace"].flatMap((field) => {
    const value = textAt(source, field);
    return value === "" ? [] : check.dnsLabel(`${path}.${field}`, value);
  });
  yield* labels;
  yield* secretCauses(source, path, owner);
}
