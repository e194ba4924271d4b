import {
  duplicateCause,
  forbiddenCause,
  invalidCause,
  notFoundCause,
  requiredCause,
  type StatusCause,
} from "@keelson/api-machinery/validation";
import * as check from "../../../field-checks.ts";
import { listAt, mapAt, textAt, valueAt } from "../../../object-fields.ts";
import { containerSecurityCauses } from "./security-validation.ts";
import { localPathCauses } from "./local-path.ts";
import { lifeCauses } from "./lifecycle-validation.ts";
import { environmentCauses } from "./environment-validation.ts";
import { type PodClaims, podClaimsOf, resizePolicyCauses, resourceCauses } from "./resource-validation.ts";
import type { Causes } from "../../../causes.ts";

/** Protocols of ports, in the order of kube-apiserver's message. */
export const protocols: readonly string[] = ["SCTP", "TCP", "UDP"];

/**
 * Validates the init, regular and ephemeral containers of a PodSpec, which share one set of names. As in kube-apiserver, a volume with
 * `volumeFaults` cannot be mounted.
 */
export function* containerCauses(spec: unknown, path: string, volumeFaults: readonly StatusCause[]): Causes {
  const names = new Set<string>();
  const targets = new Set<string>();
  const faulty = new Set(volumeFaults.map(({ field = "" }) => /\.volumes\[\d+\]/.exec(field)?.[0]));
  const pod: PodContext = {
    claims: podClaimsOf(listAt(spec, "resourceClaims").flatMap((claim) => textAt(claim, "name") || [])),
    restartPolicy: valueAt(spec, "restartPolicy"),
  };
  const sound = listAt(spec, "volumes").filter((_, index) => !faulty.has(`.volumes[${index}]`));
  const volumes = new Set(sound.map((volume) => textAt(volume, "name")));
  const claims = new Set(sound.filter(isBlockSource).map((volume) => textAt(volume, "name")));
  const grace = valueAt(spec, "terminationGracePeriodSeconds");
  // A negative period means 1 s.
  const graceSeconds = typeof grace === "number" && grace < 0 ? 1 : grace;
  if (listAt(spec, "containers").length === 0) yield requiredCause(`${path}.containers`);
  for (const field of ["containers", "initContainers", "ephemeralContainers"]) {
    for (const [index, container] of listAt(spec, field).entries()) {
      yield;
      const at = `${path}.${field}[${index}]`;
      const name = textAt(container, "name");
      yield* check.dnsLabel(`${at}.name`, valueAt(container, "name"));
      yield* oneContainer(container, at, volumes, claims, pod);
      if (name !== "" && names.has(name)) yield duplicateCause(`${at}.name`, name);
      if (field === "ephemeralContainers") yield* ephemeralCauses(container, at, targets);
      else {
        targets.add(name);
        yield* lifeCauses(container, at, field, graceSeconds);
      }
      names.add(name);
    }
  }
  yield* hostPortCauses(spec, path);
}

/** Fields that ephemeral containers lack, in kube-apiserver's order. */
const nonEphemeralFields = [
  "ports",
  "resources",
  "resizePolicy",
  "restartPolicy",
  "restartPolicyRules",
  "livenessProbe",
  "readinessProbe",
  "startupProbe",
  "lifecycle",
];

/** Validates the restrictions of ephemeral containers, and that the target is one of the other containers. */
function* ephemeralCauses(container: unknown, path: string, targets: ReadonlySet<string>): Causes {
  const detail = "cannot be set for an Ephemeral Container";
  const target = textAt(container, "targetContainerName");
  if (target !== "" && !targets.has(target)) yield notFoundCause(`${path}.targetContainerName`, target);
  for (const field of nonEphemeralFields) {
    const value = valueAt(container, field);
    const isAbsent = value === undefined || (field === "resources" && Object.keys(mapAt(container, field)).length === 0);
    if (!isAbsent) yield forbiddenCause(`${path}.${field}`, detail);
  }
  for (const [index, mount] of listAt(container, "volumeMounts").entries()) {
    yield;
    for (const field of ["subPath", "subPathExpr"]) {
      if (textAt(mount, field) !== "") yield forbiddenCause(`${path}.volumeMounts[${index}].${field}`, detail);
    }
  }
}

/** Host ports must be unique among the containers of a Pod. Init containers are exempt because they run one after the other. */
function* hostPortCauses(spec: unknown, path: string): Causes {
  const used = new Set<string>();
  for (const [index, container] of listAt(spec, "containers").entries()) {
    yield;
    for (const [at, port] of listAt(container, "ports").entries()) {
      yield;
      const hostPort = valueAt(port, "hostPort");
      if (typeof hostPort !== "number" || hostPort === 0) continue;
      if (valueAt(spec, "hostNetwork") === true && hostPort !== valueAt(port, "containerPort")) {
        const detail = "must match `containerPort` when `hostNetwork` is true";
        yield invalidCause(`${path}.containers[${index}].ports[${at}].hostPort`, hostPort, detail);
      }
      const socket = `${textAt(port, "protocol")}/${textAt(port, "hostIP")}/${hostPort}`;
      if (used.has(socket)) {
        yield duplicateCause(`${path}.containers[${index}].ports[${at}].hostPort`, socket);
      }
      used.add(socket);
    }
  }
}

function isBlockSource(volume: unknown): boolean {
  return valueAt(volume, "persistentVolumeClaim") !== undefined || valueAt(volume, "ephemeral") !== undefined;
}

/** What the validation of a container needs to know about its Pod. */
interface PodContext {
  /** Its claims of devices. */
  readonly claims: PodClaims;
  readonly restartPolicy: unknown;
}

function* oneContainer(
  container: unknown,
  path: string,
  volumes: ReadonlySet<string>,
  claims: ReadonlySet<string>,
  pod: PodContext,
): Causes {
  const image = textAt(container, "image");
  yield* check.nonEmpty(`${path}.image`, image);
  const message = valueAt(container, "terminationMessagePolicy");
  yield* check.oneOf(`${path}.terminationMessagePolicy`, message, ["File", "FallbackToLogsOnError"]);
  yield* portCauses(container, path);
  yield* environmentCauses(container, path);
  const devices = listAt(container, "volumeDevices");
  const deviceNames = new Set(devices.map((device) => textAt(device, "name")));
  const devicePaths = new Set(devices.map((device) => textAt(device, "devicePath")));
  const mountPaths = new Set<string>();
  for (const [index, mount] of listAt(container, "volumeMounts").entries()) {
    yield;
    const at = `${path}.volumeMounts[${index}]`;
    const name = textAt(mount, "name");
    const mountPath = textAt(mount, "mountPath");
    if (name === "") yield requiredCause(`${at}.name`);
    if (!volumes.has(name)) yield notFoundCause(`${at}.name`, name);
    if (mountPath === "") yield requiredCause(`${at}.mountPath`);
    if (mountPaths.has(mountPath)) yield invalidCause(`${at}.mountPath`, mountPath, "must be unique");
    mountPaths.add(mountPath);
    if (deviceNames.has(name)) yield invalidCause(`${at}.name`, name, "must not already exist in volumeDevices");
    if (devicePaths.has(mountPath)) {
      yield invalidCause(`${at}.mountPath`, mountPath, "must not already exist as a path in volumeDevices");
    }
    const subPath = textAt(mount, "subPath");
    const subPathExpression = textAt(mount, "subPathExpr");
    if (subPath !== "" && subPathExpression !== "") {
      yield invalidCause(`${at}.subPathExpr`, subPathExpression, "subPathExpr and subPath are mutually exclusive");
    }
    // kube-apiserver omits the index here.
    const mounts = `${path}.volumeMounts`;
    yield* localPathCauses(`${mounts}.subPath`, subPath);
    yield* localPathCauses(`${mounts}.subPathExpr`, subPathExpression);
    const propagation = valueAt(mount, "mountPropagation");
    yield* check.oneOf(`${mounts}.mountPropagation`, propagation, ["Bidirectional", "HostToContainer", "None"]);
    if (propagation === "Bidirectional" && valueAt(container, "securityContext", "privileged") !== true) {
      const detail = "Bidirectional mount propagation is available only to privileged containers";
      yield forbiddenCause(`${mounts}.mountPropagation`, detail);
    }
    yield* recursiveCauses(mount, `${mounts}.recursiveReadOnly`);
  }
  yield* deviceCauses(container, `${path}.volumeDevices`, volumes, claims);
  const pull = valueAt(container, "imagePullPolicy");
  yield* check.oneOf(`${path}.imagePullPolicy`, pull, ["Always", "IfNotPresent", "Never"]);
  yield* resourceCauses(valueAt(container, "resources"), `${path}.resources`, pod.claims);
  yield* resizePolicyCauses(listAt(container, "resizePolicy"), `${path}.resizePolicy`, pod.restartPolicy);
  yield* containerSecurityCauses(valueAt(container, "securityContext"), `${path}.securityContext`);
}

/** Only a read-only mount that receives no mounts of the host can be read-only recursively. */
function recursiveCauses(mount: unknown, path: string): StatusCause[] {
  const value = valueAt(mount, "recursiveReadOnly");
  const causes = check.oneOf(path, value, ["Disabled", "Enabled", "IfPossible"]);
  if (value !== "Enabled" && value !== "IfPossible") return causes;
  if (valueAt(mount, "readOnly") !== true) causes.push(forbiddenCause(path, "may only be specified when readOnly is true"));
  if ((valueAt(mount, "mountPropagation") ?? "None") !== "None") {
    causes.push(forbiddenCause(path, "may only be specified when mountPropagation is None or not specified"));
  }
  return causes;
}

/** Validates block devices, each of which needs a volume with a claim and must not be mounted too. */
function* deviceCauses(container: unknown, path: string, volumes: ReadonlySet<string>, claims: ReadonlySet<string>): Causes {
  const mounts = listAt(container, "volumeMounts");
  const mounted = new Set(mounts.map((mount) => textAt(mount, "name")));
  const mountPaths = new Set(mounts.map((mount) => textAt(mount, "mountPath")));
  const names = new Set<string>();
  const paths = new Set<string>();
  for (const [index, device] of listAt(container, "volumeDevices").entries()) {
    yield;
    const name = textAt(device, "name");
    const devicePath = textAt(device, "devicePath");
    const nameField = `${path}[${index}].name`;
    const pathField = `${path}[${index}].devicePath`;
    if (name === "") yield requiredCause(nameField);
    else if (names.has(name)) yield invalidCause(nameField, name, "must be unique");
    names.add(name);
    if (!volumes.has(name)) yield notFoundCause(nameField, name);
    else if (!claims.has(name)) yield invalidCause(nameField, name, blockRule);
    if (devicePath === "") yield requiredCause(pathField);
    if (paths.has(devicePath)) yield invalidCause(pathField, devicePath, "must be unique");
    if (devicePath.split("/").includes("..")) {
      yield invalidCause(pathField, devicePath, "can not contain backsteps ('..')");
    } else paths.add(devicePath);
    if (mounted.has(name)) yield invalidCause(nameField, name, "must not already exist in volumeMounts");
    if (mountPaths.has(devicePath)) {
      yield invalidCause(pathField, devicePath, "must not already exist as a path in volumeMounts");
    }
  }
}

const blockRule = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode";

function* portCauses(container: unknown, path: string): Causes {
  const names = new Set<string>();
  for (const [index, port] of listAt(container, "ports").entries()) {
    yield;
    const at = `${path}.ports[${index}]`;
    const name = textAt(port, "name");
    if (name !== "") {
      const faults = check.portNameFaults(name);
      yield* faults.map((fault) => invalidCause(`${at}.name`, name, fault));
      if (faults.length === 0 && names.has(name)) yield duplicateCause(`${at}.name`, name);
      names.add(name);
    }
    if (valueAt(port, "containerPort") === 0) yield requiredCause(`${at}.containerPort`);
    else yield* check.portNumber(`${at}.containerPort`, valueAt(port, "containerPort"));
    const hostPort = valueAt(port, "hostPort");
    if (hostPort !== 0) yield* check.portNumber(`${at}.hostPort`, hostPort);
    yield* check.oneOf(`${at}.protocol`, valueAt(port, "protocol"), protocols);
  }
}
