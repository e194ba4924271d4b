import { compareQuantities, isQuantity } from "@keelson/api-machinery/quantity";
import {
  configMapKeyFaults,
  duplicateCause,
  forbiddenCause,
  invalidCause,
  requiredCause,
  type StatusCause,
} from "@keelson/api-machinery/validation";
import * as check from "../../field-checks.ts";
import { listAt, textAt, valueAt } from "../../object-fields.ts";
import { localPathCauses } from "./container-validation.ts";
import { fieldReferenceCauses, resourceReferenceCauses } from "./environment-validation.ts";

/** Validates the volumes of a PodSpec. */
export function volumeCauses(spec: unknown, path: string): StatusCause[] {
  const causes: StatusCause[] = [];
  const names = new Set<string>();
  for (const [index, volume] of listAt(spec, "volumes").entries()) {
    const at = `${path}.volumes[${index}]`;
    const name = textAt(volume, "name");
    causes.push(...check.dnsLabel(`${at}.name`, valueAt(volume, "name")));
    if (name !== "" && names.has(name)) causes.push(duplicateCause(`${at}.name`, name));
    names.add(name);
    const [first, ...more] = Object.keys(volume as object).filter((key) => key !== "name");
    if (first === undefined) causes.push(requiredCause(at, "must specify a volume type"));
    else causes.push(...sourceCauses(first, valueAt(volume, first), `${at}.${first}`));
    causes.push(...more.map((other) => forbiddenCause(`${at}.${other}`, "may not specify more than 1 volume type")));
  }
  return causes;
}

const hostPathTypes = ["", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"];

function sourceCauses(type: string, source: unknown, path: string): StatusCause[] {
  switch (type) {
    case "emptyDir": {
      const limit = valueAt(source, "sizeLimit");
      return isQuantity(limit) && compareQuantities(limit, 0) < 0
        ? [forbiddenCause(`${path}.sizeLimit`, "SizeLimit field must be a valid resource quantity")]
        : [];
    }
    case "hostPath": {
      const host = textAt(source, "path");
      const causes = check.nonEmpty(`${path}.path`, host);
      if (host.split("/").includes("..")) causes.push(invalidCause(`${path}.path`, host, "must not contain '..'"));
      return [...causes, ...check.oneOf(`${path}.type`, valueAt(source, "type"), hostPathTypes)];
    }
    case "configMap":
      return [...check.nonEmpty(`${path}.name`, textAt(source, "name")), ...fileCauses(source, path)];
    case "secret":
      return [...check.nonEmpty(`${path}.secretName`, textAt(source, "secretName")), ...fileCauses(source, path)];
    case "persistentVolumeClaim":
      return check.nonEmpty(`${path}.claimName`, textAt(source, "claimName"));
    case "downwardAPI":
      return [
        ...modeCauses(`${path}.defaultMode`, valueAt(source, "defaultMode")),
        // kube-apiserver omits the index here.
        ...listAt(source, "items").flatMap((item) => downwardCauses(item, path)),
      ];
    case "projected":
      return [
        ...modeCauses(`${path}.defaultMode`, valueAt(source, "defaultMode")),
        ...listAt(source, "sources").flatMap((one, index) => projectionCauses(one, `${path}.sources[${index}]`)),
      ];
    default:
      return [];
  }
}

const projections = ["secret", "configMap", "downwardAPI", "serviceAccountToken", "clusterTrustBundle", "podCertificate"];

function projectionCauses(source: unknown, path: string): StatusCause[] {
  const given = projections.filter((name) => valueAt(source, name) !== undefined);
  if (given.length === 0) return [requiredCause(path, `must specify one of: ${projections.join(", ")}`)];
  const causes = given
    .slice(1)
    .map((name) => forbiddenCause(`${path}.${name}`, "may not specify more than 1 volume type per source"));
  for (const name of given) {
    const at = `${path}.${name}`;
    const one = valueAt(source, name);
    if (name === "secret" || name === "configMap") {
      causes.push(...check.nonEmpty(`${at}.name`, textAt(one, "name")), ...itemCauses(one, at));
    } else if (name === "downwardAPI") {
      causes.push(...listAt(one, "items").flatMap((item) => downwardCauses(item, at)));
    } else if (name === "serviceAccountToken") {
      const seconds = valueAt(one, "expirationSeconds");
      if (typeof seconds === "number" && seconds < 600) {
        causes.push(invalidCause(`${at}.expirationSeconds`, seconds, "may not specify a duration less than 10 minutes"));
      }
      causes.push(...filePathCauses(`${at}.path`, textAt(one, "path")));
    }
  }
  return causes;
}

function fileCauses(source: unknown, path: string): StatusCause[] {
  return [...modeCauses(`${path}.defaultMode`, valueAt(source, "defaultMode")), ...itemCauses(source, path)];
}

function itemCauses(source: unknown, path: string): StatusCause[] {
  return listAt(source, "items").flatMap((item, index) => {
    const at = `${path}.items[${index}]`;
    const key = textAt(item, "key");
    const causes =
      key === "" ? [requiredCause(`${at}.key`)] : configMapKeyFaults(key).map((fault) => invalidCause(`${at}.key`, key, fault));
    return [
      ...causes,
      ...filePathCauses(`${at}.path`, textAt(item, "path")),
      ...modeCauses(`${at}.mode`, valueAt(item, "mode")),
    ];
  });
}

function downwardCauses(item: unknown, path: string): StatusCause[] {
  const causes = filePathCauses(`${path}.path`, textAt(item, "path"));
  const field = valueAt(item, "fieldRef");
  const resource = valueAt(item, "resourceFieldRef");
  if (field !== undefined) causes.push(...fieldReferenceCauses(field, `${path}.fieldRef`, false));
  if (field !== undefined && resource !== undefined) {
    causes.push(invalidCause(path, "resource", "fieldRef and resourceFieldRef can not be specified simultaneously"));
  } else if (resource !== undefined) {
    const isOfContainer = textAt(resource, "containerName") !== "";
    if (isOfContainer) causes.push(...resourceReferenceCauses(resource, `${path}.resourceFieldRef`));
    else causes.push(requiredCause(`${path}.resourceFieldRef.containerName`));
  }
  if (field === undefined && resource === undefined) {
    causes.push(requiredCause(path, "one of fieldRef and resourceFieldRef is required"));
  }
  return [...causes, ...modeCauses(`${path}.mode`, valueAt(item, "mode"))];
}

function filePathCauses(field: string, path: string): StatusCause[] {
  return path === "" ? [requiredCause(field)] : localPathCauses(field, path);
}

function modeCauses(field: string, mode: unknown): StatusCause[] {
  if (typeof mode !== "number" || (mode >= 0 && mode <= 0o777)) return [];
  return [invalidCause(field, mode, "must be a number between 0 and 0777 (octal), both inclusive")];
}
