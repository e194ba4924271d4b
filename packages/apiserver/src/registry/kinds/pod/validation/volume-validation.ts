import { compareQuantities, isQuantity } from "@keelson/api-machinery/quantity";
import {
  duplicateCause,
  forbiddenCause,
  invalidCause,
  requiredCause,
  type StatusCause,
} from "@keelson/api-machinery/validation";
import * as check from "../../../field-checks.ts";
import { listAt, mapAt, textAt, valueAt } from "../../../object-fields.ts";
import { claimSpecCauses } from "../../storage/claim-validation.ts";
import { chooseSource, shownSourceField, volumeSourceCauses } from "../../storage/volume-source-validation.ts";
import { localPathCauses } from "./local-path.ts";
import { fieldReferenceCauses, resourceReferenceCauses } from "./environment-validation.ts";
import { type Causes, countCauses, eachItem } from "../../../causes.ts";

/** Validates the volumes of a PodSpec. */
export function* volumeCauses(spec: unknown, path: string): Causes {
  const names = new Set<string>();
  for (const [index, volume] of listAt(spec, "volumes").entries()) {
    yield;
    const at = `${path}.volumes[${index}]`;
    const name = textAt(volume, "name");
    const types = Object.keys(volume as object).filter((key) => key !== "name");
    const { source, surplus } = chooseSource(types, at, "Pod");
    const sourceFaults =
      source === undefined
        ? [requiredCause(at, "must specify a volume type")]
        : sourceCauses(source, valueAt(volume, source), `${at}.${shownSourceField(source)}`);
    const faults = (yield* countCauses(sourceFaults)) + (yield* countCauses(surplus));
    const nameFaults = check.dnsLabel(`${at}.name`, valueAt(volume, "name"));
    yield* nameFaults;
    // A volume with faults does not take its name.
    if (names.has(name)) yield duplicateCause(`${at}.name`, name);
    else if (faults === 0 && nameFaults.length === 0) names.add(name);
  }
}

function* sourceCauses(type: string, source: unknown, path: string): Causes {
  switch (type) {
    case "emptyDir": {
      const limit = valueAt(source, "sizeLimit");
      yield* isQuantity(limit) && compareQuantities(limit, 0) < 0
        ? [forbiddenCause(`${path}.sizeLimit`, "SizeLimit field must be a valid resource quantity")]
        : [];
      return;
    }
    case "image":
      yield* path.startsWith("spec.volumes[") ? check.nonEmpty(`${path}.reference`, textAt(source, "reference")) : [];
      yield* check.oneOf(`${path}.pullPolicy`, valueAt(source, "pullPolicy"), ["Always", "IfNotPresent", "Never"]);
      return;
    case "configMap":
      yield* check.nonEmpty(`${path}.name`, textAt(source, "name"));
      yield* fileCauses(source, path);
      return;
    case "secret":
      yield* check.nonEmpty(`${path}.secretName`, textAt(source, "secretName"));
      yield* fileCauses(source, path);
      return;
    case "csi":
      yield* check.driverName(`${path}.driver`, textAt(source, "driver"));
      yield* valueAt(source, "nodePublishSecretRef") === undefined
        ? []
        : check.nonEmpty(`${path}.nodePublishSecretRef.name`, textAt(source, "nodePublishSecretRef", "name"));
      return;
    case "ephemeral": {
      const template = valueAt(source, "volumeClaimTemplate");
      const at = `${path}.volumeClaimTemplate`;
      if (template === undefined) {
        yield requiredCause(at);
        return;
      }
      yield* check.annotations(`${at}.metadata.annotations`, valueAt(template, "metadata", "annotations"));
      yield* check.labels(`${at}.metadata.labels`, valueAt(template, "metadata", "labels"));
      yield* claimSpecCauses(mapAt(template, "spec"), `${at}.spec`);
      return;
    }
    case "persistentVolumeClaim":
      yield* check.nonEmpty(`${path}.claimName`, textAt(source, "claimName"));
      return;
    case "downwardAPI":
      yield* modeCauses(`${path}.defaultMode`, valueAt(source, "defaultMode"));
      yield* eachItem(listAt(source, "items"), (item) => downwardCauses(item, path));
      return;
    case "projected":
      yield* modeCauses(`${path}.defaultMode`, valueAt(source, "defaultMode"));
      yield* projectedSourceCauses(source, path);
      return;
    case "gitRepo":
      yield* volumeSourceCauses(type, source, path, "Pod");
      yield* localPathCauses(`${path}.directory`, textAt(source, "directory"));
      return;
    default:
      yield* volumeSourceCauses(type, source, path, "Pod");
      return;
  }
}

function* projectedSourceCauses(source: unknown, path: string): Causes {
  const paths = new Set<string>();
  yield* eachItem(listAt(source, "sources"), (one, index) => projectionCauses(one, `${path}.sources[${index}]`, path, paths));
}

const projections = ["secret", "configMap", "downwardAPI", "serviceAccountToken", "clusterTrustBundle", "podCertificate"];

/** Validates one source of a projected volume at `volumePath`. `paths` are those of the files so far. */
function* projectionCauses(source: unknown, path: string, volumePath: string, paths: Set<string>): Causes {
  const claimPath = (file: string, shown: string): StatusCause[] => {
    if (file === "") return [];
    if (paths.has(file)) return [invalidCause(volumePath, shown, "conflicting duplicate paths")];
    paths.add(file);
    return [];
  };
  const given = projections.filter((name) => valueAt(source, name) !== undefined);

  for (const name of given) {
    yield;
    const at = `${path}.${name}`;
    const one = valueAt(source, name);
    if (name === "secret" || name === "configMap") {
      yield* check.nonEmpty(`${at}.name`, textAt(one, "name"));
      for (const [index, item] of listAt(one, "items").entries()) {
        yield;
        yield* itemCauses(item, `${at}.items[${index}]`);
        yield* claimPath(textAt(item, "path"), textAt(one, "name"));
      }
    } else if (name === "downwardAPI") {
      for (const item of listAt(one, "items")) {
        yield;
        yield* downwardCauses(item, at);
        yield* claimPath(textAt(item, "path"), textAt(item, "path"));
      }
    } else if (name === "serviceAccountToken") {
      const seconds = valueAt(one, "expirationSeconds");
      if (typeof seconds === "number" && seconds < 600) {
        yield invalidCause(`${at}.expirationSeconds`, seconds, "may not specify a duration less than 10 minutes");
      }
      if (typeof seconds === "number" && seconds > 2 ** 32) {
        yield invalidCause(`${at}.expirationSeconds`, seconds, "may not specify a duration larger than 2^32 seconds");
      }
      // kube-apiserver omits the source here.
      const file = textAt(one, "path");
      yield* file === "" ? [requiredCause(`${volumePath}.path`)] : filePathCauses(`${volumePath}.path`, file);
    }
  }
  if (given.length > 1) yield forbiddenCause(path, "may not specify more than 1 volume type per source");
}

function* fileCauses(source: unknown, path: string): Causes {
  yield* modeCauses(`${path}.defaultMode`, valueAt(source, "defaultMode"));
  yield* eachItem(listAt(source, "items"), (item, index) => itemCauses(item, `${path}.items[${index}]`));
}

function itemCauses(item: unknown, path: string): StatusCause[] {
  return [
    ...check.nonEmpty(`${path}.key`, textAt(item, "key")),
    ...filePathCauses(`${path}.path`, textAt(item, "path")),
    ...modeCauses(`${path}.mode`, valueAt(item, "mode")),
  ];
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
  if (path === "") return [requiredCause(field)];
  const causes = localPathCauses(field, path);
  if (path.startsWith("..") && !path.startsWith("../")) causes.push(invalidCause(field, path, "must not start with '..'"));
  return causes;
}

function modeCauses(field: string, mode: unknown): StatusCause[] {
  if (typeof mode !== "number" || (mode >= 0 && mode <= 0o777)) return [];
  return [invalidCause(field, mode, "must be a number between 0 and 0777 (octal), both inclusive")];
}
