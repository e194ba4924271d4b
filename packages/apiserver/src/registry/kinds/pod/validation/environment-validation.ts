import { isJsonObject } from "@keelson/api-machinery";
import { compareQuantities, formatQuantity, isQuantity } from "@keelson/api-machinery/quantity";
import {
  configMapKeyFaults,
  dns1123SubdomainFaults,
  invalidCause,
  notFoundCause,
  notSupportedCause,
  qualifiedNameFaults,
  requiredCause,
  type StatusCause,
} from "@keelson/api-machinery/validation";
import * as check from "../../../field-checks.ts";
import { listAt, textAt, valueAt } from "../../../object-fields.ts";
import type { Causes } from "../../../causes.ts";

const environmentRule = "a valid environment variable name must consist only of printable ASCII characters other than '='";
const environmentName = /^[ -<>-~]+$/;
const variableSources = ["fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef"];

/** Validates the environment of a container. */
export function* environmentCauses(container: unknown, path: string): Causes {
  for (const [index, variable] of listAt(container, "env").entries()) {
    yield;
    const at = `${path}.env[${index}]`;
    const name = valueAt(variable, "name");
    if (name === "") yield requiredCause(`${at}.name`);
    else if (typeof name === "string" && !environmentName.test(name)) {
      yield invalidCause(`${at}.name`, name, environmentRule);
    }
    yield* variableSourceCauses(variable, `${at}.valueFrom`);
  }
  for (const [index, source] of listAt(container, "envFrom").entries()) {
    yield;
    const at = `${path}.envFrom[${index}]`;
    const prefix = textAt(source, "prefix");
    if (prefix !== "" && !environmentName.test(prefix)) yield invalidCause(`${at}.prefix`, prefix, environmentRule);
    const given = ["configMapRef", "secretRef"].filter((field) => valueAt(source, field) !== undefined);
    for (const field of given) {
      yield;
      const name = textAt(source, field, "name");
      if (name === "") yield requiredCause(`${at}.${field}.name`);
      else yield* check.dnsSubdomain(`${at}.${field}.name`, name);
    }
    if (given.length === 0) {
      yield invalidCause(`${path}.envFrom`, "", "must specify one of: `configMapRef` or `secretRef`");
    }
    if (given.length > 1) yield invalidCause(`${path}.envFrom`, "", "may not have more than one field specified at a time");
  }
}

function variableSourceCauses(variable: unknown, path: string): StatusCause[] {
  const source = valueAt(variable, "valueFrom");
  if (!isJsonObject(source)) return [];
  const causes: StatusCause[] = [];
  const given = variableSources.filter((field) => valueAt(source, field) !== undefined);
  if (given.includes("fieldRef")) causes.push(...fieldReferenceCauses(source["fieldRef"], `${path}.fieldRef`, true));
  if (given.includes("resourceFieldRef")) {
    causes.push(...resourceReferenceCauses(source["resourceFieldRef"], `${path}.resourceFieldRef`));
  }
  for (const field of ["configMapKeyRef", "secretKeyRef"]) {
    if (!given.includes(field)) continue;
    const name = textAt(source, field, "name");
    causes.push(...dns1123SubdomainFaults(name).map((fault) => invalidCause(`${path}.${field}.name`, name, fault)));
    const key = textAt(source, field, "key");
    if (key === "") causes.push(requiredCause(`${path}.${field}.key`));
    else causes.push(...configMapKeyFaults(key).map((fault) => invalidCause(`${path}.${field}.key`, key, fault)));
  }
  if (given.includes("fileKeyRef")) causes.push(...fileKeyCauses(source["fileKeyRef"], `${path}.fileKeyRef`));
  if (given.length === 0) {
    const detail = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`";
    causes.push(invalidCause(path, "", detail));
  }
  if (textAt(variable, "value") !== "" && given.length > 0) {
    causes.push(invalidCause(path, "", "may not be specified when `value` is not empty"));
  } else if (given.length > 1) causes.push(invalidCause(path, "", "may not have more than one field specified at a time"));
  return causes;
}

/** Validates a reference to a variable in a file of a volume (KEP-3721). */
function fileKeyCauses(reference: unknown, path: string): StatusCause[] {
  const causes: StatusCause[] = [];
  const key = textAt(reference, "key");
  if (key === "") causes.push(requiredCause(`${path}.key`));
  else if (!environmentName.test(key)) causes.push(invalidCause(`${path}.key`, key, environmentRule));
  const volume = textAt(reference, "volumeName");
  causes.push(...(volume === "" ? [requiredCause(`${path}.volumeName`)] : check.dnsLabel(`${path}.volumeName`, volume)));
  const file = textAt(reference, "path");
  if (file === "") causes.push(requiredCause(`${path}.path`));
  else if (file.split("/").includes("..")) causes.push(invalidCause(`${path}.path`, file, "must not contain '..'"));
  return causes;
}

/** Variables in files need a volume of type emptyDir. */
export function* fileVolumeCauses(spec: unknown, path: string): Causes {
  const volumes = new Map(listAt(spec, "volumes").map((volume) => [textAt(volume, "name"), volume]));
  for (const field of ["initContainers", "containers", "ephemeralContainers"]) {
    for (const [index, container] of listAt(spec, field).entries()) {
      for (const [at, variable] of listAt(container, "env").entries()) {
        yield;
        const reference = valueAt(variable, "valueFrom", "fileKeyRef");
        if (reference === undefined) continue;
        const name = textAt(reference, "volumeName");
        const fieldName = `${path}.${field}[${index}].env[${at}].valueFrom.fileKeyRef.volumeName`;
        const volume = volumes.get(name);
        if (volume === undefined) yield notFoundCause(fieldName, name);
        else if (valueAt(volume, "emptyDir") === undefined) {
          yield invalidCause(fieldName, name, "referenced volume must be of type emptyDir");
        }
      }
    }
  }
}

const resourcePaths = [
  "limits.cpu",
  "limits.ephemeral-storage",
  "limits.memory",
  "requests.cpu",
  "requests.ephemeral-storage",
  "requests.memory",
];

/** Validates a ResourceFieldSelector, which reads a container's resources. */
export function resourceReferenceCauses(reference: unknown, path: string): StatusCause[] {
  const resource = textAt(reference, "resource");
  if (resource === "") return [requiredCause(`${path}.resource`)];
  if (resourcePaths.includes(resource) || /^(?:limits|requests)\.hugepages-/.test(resource)) {
    return divisorCauses(resource, valueAt(reference, "divisor"), `${path}.divisor`);
  }
  return [notSupportedCause(`${path}.resource`, resource, resourcePaths)];
}

const cpuDivisors = ["1m", "1"];
const memoryDivisors = ["1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"];

/** Divisors are powers of the units of their resource. */
function divisorCauses(resource: string, divisor: unknown, path: string): StatusCause[] {
  if (!isQuantity(divisor) || compareQuantities(divisor, 0) === 0) return [];
  const text = formatQuantity(divisor);
  const [name, divisors, detail] = resource.endsWith("cpu")
    ? ["cpu", cpuDivisors, "1m and 1"]
    : [resource.slice(resource.indexOf(".") + 1), memoryDivisors, "1, 1k, 1M, 1G, 1T, 1P, 1E, 1Ki, 1Mi, 1Gi, 1Ti, 1Pi, 1Ei"];
  if (divisors.includes(text)) return [];
  const kind = name.startsWith("hugepages-") ? "hugepages" : name === "ephemeral-storage" ? "local ephemeral storage" : name;
  return [invalidCause(path, resource, `only divisor's values ${detail} are supported with the ${kind} resource`)];
}

const metadataPaths = ["metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"];
const environmentPaths = [
  "metadata.name",
  "metadata.namespace",
  "metadata.uid",
  "spec.nodeName",
  "spec.serviceAccountName",
  "status.hostIP",
  "status.hostIPs",
  "status.podIP",
  "status.podIPs",
];

/** Known paths that environment variables cannot use. */
const otherPaths = [
  "metadata.annotations",
  "metadata.labels",
  "spec.host",
  "spec.restartPolicy",
  "spec.schedulerName",
  "status.phase",
];

/** Validates an ObjectFieldSelector; environment variables and files support different fields. */
export function fieldReferenceCauses(reference: unknown, path: string, isEnvironment: boolean): StatusCause[] {
  const fieldPath = valueAt(reference, "fieldPath");
  if (fieldPath === "") return [requiredCause(`${path}.fieldPath`)];
  if (typeof fieldPath !== "string") return [];
  const version = textAt(reference, "apiVersion");
  if (version !== "v1" && version !== "") {
    const detail = `error converting fieldPath: unsupported pod version: ${version}`;
    return [invalidCause(`${path}.fieldPath`, fieldPath, detail)];
  }
  const keyed = /^(metadata\.(?:annotations|labels))\['(.*)'\]$/.exec(fieldPath);
  if (keyed !== null) {
    const key = keyed[2] ?? "";
    return qualifiedNameFaults(key).map((fault) => invalidCause(`${path}.fieldPath`, fieldPath, fault));
  }
  if (!environmentPaths.includes(fieldPath) && !otherPaths.includes(fieldPath)) {
    const detail = `error converting fieldPath: field label not supported: ${fieldPath}`;
    return [invalidCause(`${path}.fieldPath`, fieldPath, detail)];
  }
  const supported = isEnvironment ? environmentPaths : metadataPaths;
  return supported.includes(fieldPath) ? [] : [notSupportedCause(`${path}.fieldPath`, fieldPath, supported)];
}
