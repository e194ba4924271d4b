import {
  duplicateCause,
  forbiddenCause,
  invalidCause,
  notFoundCause,
  requiredCause,
  type StatusCause,
  tooLongCause,
} from "@keelson/api-machinery/validation";
import * as check from "../../field-checks.ts";
import { listAt, mapAt, textAt, valueAt } from "../../object-fields.ts";
import { containerSecurityCauses } from "./security-validation.ts";
import { localPathCauses } from "./local-path.ts";
import { handlerCauses } from "./handler-validation.ts";
import { environmentCauses } from "./environment-validation.ts";
import { resizePolicyCauses, resourceCauses } from "./resource-validation.ts";

/** Protocols of ports, in the order of kube-apiserver's message. */
export const protocols: readonly string[] = ["SCTP", "TCP", "UDP"];

/**
 * Validates the init, regular and ephemeral containers of a PodSpec, which share one set of names. As in kube-apiserver, a volume with
 * `volumeFaults` cannot be mounted.
 */
export function containerCauses(spec: unknown, path: string, volumeFaults: readonly StatusCause[]): StatusCause[] {
  const causes: StatusCause[] = [];
  const names = new Set<string>();
  const faulty = new Set(volumeFaults.map(({ field = "" }) => /\.volumes\[\d+\]/.exec(field)?.[0]));
  const pod: PodContext = {
    claims: listAt(spec, "resourceClaims").flatMap((claim) => textAt(claim, "name") || []),
    restartPolicy: valueAt(spec, "restartPolicy"),
  };
  const sound = listAt(spec, "volumes").filter((_, index) => !faulty.has(`.volumes[${index}]`));
  const volumes = new Set(sound.map((volume) => textAt(volume, "name")));
  const claims = new Set(sound.filter(isBlockSource).map((volume) => textAt(volume, "name")));
  const grace = valueAt(spec, "terminationGracePeriodSeconds");
  // A negative period means 1 s.
  const graceSeconds = typeof grace === "number" && grace < 0 ? 1 : grace;
  if (listAt(spec, "containers").length === 0) causes.push(requiredCause(`${path}.containers`));
  for (const field of ["containers", "initContainers", "ephemeralContainers"]) {
    for (const [index, container] of listAt(spec, field).entries()) {
      const at = `${path}.${field}[${index}]`;
      const name = textAt(container, "name");
      causes.push(...check.dnsLabel(`${at}.name`, valueAt(container, "name")));
      causes.push(...oneContainer(container, at, volumes, claims, pod));
      if (name !== "" && names.has(name)) causes.push(duplicateCause(`${at}.name`, name));
      names.add(name);
      causes.push(...lifeCauses(container, at, field, graceSeconds));
      if (field === "ephemeralContainers") causes.push(...ephemeralCauses(container, at, names));
    }
  }
  causes.push(...hostPortCauses(spec, path));
  return causes;
}

/** Validates the restrictions of ephemeral containers, and that the target container exists. */
function ephemeralCauses(container: unknown, path: string, names: ReadonlySet<string>): StatusCause[] {
  const detail = "cannot be set for an Ephemeral Container";
  const causes: StatusCause[] = [];
  if (listAt(container, "ports").length > 0) causes.push(forbiddenCause(`${path}.ports`, detail));
  if (Object.keys(mapAt(container, "resources")).length > 0) causes.push(forbiddenCause(`${path}.resources`, detail));
  const target = textAt(container, "targetContainerName");
  if (target !== "" && !names.has(target)) causes.push(notFoundCause(`${path}.targetContainerName`, target));
  return causes;
}

/** Host ports must be unique among the containers of a Pod. Init containers are exempt because they run one after the other. */
function hostPortCauses(spec: unknown, path: string): StatusCause[] {
  const causes: StatusCause[] = [];
  const used = new Set<string>();
  for (const [index, container] of listAt(spec, "containers").entries()) {
    for (const [at, port] of listAt(container, "ports").entries()) {
      const hostPort = valueAt(port, "hostPort");
      if (typeof hostPort !== "number" || hostPort === 0) continue;
      if (valueAt(spec, "hostNetwork") === true && hostPort !== valueAt(port, "containerPort")) {
        const detail = "must match `containerPort` when `hostNetwork` is true";
        causes.push(invalidCause(`${path}.containers[${index}].ports[${at}].hostPort`, hostPort, detail));
      }
      const socket = `${textAt(port, "protocol")}/${textAt(port, "hostIP")}/${hostPort}`;
      if (used.has(socket)) {
        causes.push(duplicateCause(`${path}.containers[${index}].ports[${at}].hostPort`, socket));
      }
      used.add(socket);
    }
  }
  return causes;
}

function isBlockSource(volume: unknown): boolean {
  return valueAt(volume, "persistentVolumeClaim") !== undefined || valueAt(volume, "ephemeral") !== undefined;
}

/** What the validation of a container needs to know about its Pod. */
interface PodContext {
  /** Names of its claims of devices. */
  readonly claims: readonly string[];
  readonly restartPolicy: unknown;
}

function oneContainer(
  container: unknown,
  path: string,
  volumes: ReadonlySet<string>,
  claims: ReadonlySet<string>,
  pod: PodContext,
): StatusCause[] {
  const image = textAt(container, "image");
  const causes = check.nonEmpty(`${path}.image`, image);
  const message = valueAt(container, "terminationMessagePolicy");
  causes.push(...check.oneOf(`${path}.terminationMessagePolicy`, message, ["File", "FallbackToLogsOnError"]));
  causes.push(...portCauses(container, path), ...environmentCauses(container, path));
  const devices = listAt(container, "volumeDevices");
  const deviceNames = new Set(devices.map((device) => textAt(device, "name")));
  const devicePaths = new Set(devices.map((device) => textAt(device, "devicePath")));
  const mountPaths = new Set<string>();
  for (const [index, mount] of listAt(container, "volumeMounts").entries()) {
    const at = `${path}.volumeMounts[${index}]`;
    const name = textAt(mount, "name");
    const mountPath = textAt(mount, "mountPath");
    if (name === "") causes.push(requiredCause(`${at}.name`));
    if (!volumes.has(name)) causes.push(notFoundCause(`${at}.name`, name));
    if (mountPath === "") causes.push(requiredCause(`${at}.mountPath`));
    if (mountPaths.has(mountPath)) causes.push(invalidCause(`${at}.mountPath`, mountPath, "must be unique"));
    mountPaths.add(mountPath);
    if (deviceNames.has(name)) causes.push(invalidCause(`${at}.name`, name, "must not already exist in volumeDevices"));
    if (devicePaths.has(mountPath)) {
      causes.push(invalidCause(`${at}.mountPath`, mountPath, "must not already exist as a path in volumeDevices"));
    }
    const subPath = textAt(mount, "subPath");
    const subPathExpression = textAt(mount, "subPathExpr");
    if (subPath !== "" && subPathExpression !== "") {
      causes.push(invalidCause(`${at}.subPathExpr`, subPathExpression, "subPathExpr and subPath are mutually exclusive"));
    }
    // kube-apiserver omits the index here.
    const mounts = `${path}.volumeMounts`;
    causes.push(
      ...localPathCauses(`${mounts}.subPath`, subPath),
      ...localPathCauses(`${mounts}.subPathExpr`, subPathExpression),
    );
    const propagation = valueAt(mount, "mountPropagation");
    causes.push(...check.oneOf(`${mounts}.mountPropagation`, propagation, ["Bidirectional", "HostToContainer", "None"]));
    if (propagation === "Bidirectional" && valueAt(container, "securityContext", "privileged") !== true) {
      const detail = "Bidirectional mount propagation is available only to privileged containers";
      causes.push(forbiddenCause(`${mounts}.mountPropagation`, detail));
    }
    causes.push(...recursiveCauses(mount, `${mounts}.recursiveReadOnly`));
  }
  causes.push(...deviceCauses(container, `${path}.volumeDevices`, volumes, claims));
  const pull = valueAt(container, "imagePullPolicy");
  causes.push(...check.oneOf(`${path}.imagePullPolicy`, pull, ["Always", "IfNotPresent", "Never"]));
  causes.push(...resourceCauses(valueAt(container, "resources"), `${path}.resources`, pod.claims));
  causes.push(...resizePolicyCauses(listAt(container, "resizePolicy"), `${path}.resizePolicy`, pod.restartPolicy));
  return [...causes, ...containerSecurityCauses(valueAt(container, "securityContext"), `${path}.securityContext`)];
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
function deviceCauses(
  container: unknown,
  path: string,
  volumes: ReadonlySet<string>,
  claims: ReadonlySet<string>,
): StatusCause[] {
  const causes: StatusCause[] = [];
  const mounts = listAt(container, "volumeMounts");
  const mounted = new Set(mounts.map((mount) => textAt(mount, "name")));
  const mountPaths = new Set(mounts.map((mount) => textAt(mount, "mountPath")));
  const names = new Set<string>();
  const paths = new Set<string>();
  for (const [index, device] of listAt(container, "volumeDevices").entries()) {
    const name = textAt(device, "name");
    const devicePath = textAt(device, "devicePath");
    const nameField = `${path}[${index}].name`;
    const pathField = `${path}[${index}].devicePath`;
    if (name === "") causes.push(requiredCause(nameField));
    else if (names.has(name)) causes.push(invalidCause(nameField, name, "must be unique"));
    names.add(name);
    if (!volumes.has(name)) causes.push(notFoundCause(nameField, name));
    else if (!claims.has(name)) causes.push(invalidCause(nameField, name, blockRule));
    if (devicePath === "") causes.push(requiredCause(pathField));
    if (paths.has(devicePath)) causes.push(invalidCause(pathField, devicePath, "must be unique"));
    if (devicePath.split("/").includes("..")) {
      causes.push(invalidCause(pathField, devicePath, "can not contain backsteps ('..')"));
    } else paths.add(devicePath);
    if (mounted.has(name)) causes.push(invalidCause(nameField, name, "must not already exist in volumeMounts"));
    if (mountPaths.has(devicePath)) {
      causes.push(invalidCause(pathField, devicePath, "must not already exist as a path in volumeMounts"));
    }
  }
  return causes;
}

const blockRule = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode";

function portCauses(container: unknown, path: string): StatusCause[] {
  const causes: StatusCause[] = [];
  const names = new Set<string>();
  for (const [index, port] of listAt(container, "ports").entries()) {
    const at = `${path}.ports[${index}]`;
    const name = textAt(port, "name");
    if (name !== "") {
      const faults = check.portNameFaults(name);
      causes.push(...faults.map((fault) => invalidCause(`${at}.name`, name, fault)));
      if (faults.length === 0 && names.has(name)) causes.push(duplicateCause(`${at}.name`, name));
      names.add(name);
    }
    if (valueAt(port, "containerPort") === 0) causes.push(requiredCause(`${at}.containerPort`));
    else causes.push(...check.portNumber(`${at}.containerPort`, valueAt(port, "containerPort")));
    const hostPort = valueAt(port, "hostPort");
    if (hostPort !== 0) causes.push(...check.portNumber(`${at}.hostPort`, hostPort));
    causes.push(...check.oneOf(`${at}.protocol`, valueAt(port, "protocol"), protocols));
  }
  return causes;
}

const restartPolicies = ["Always", "Never", "OnFailure"];
const maxRestartRules = 20;
const maxExitCodes = 255;

/** Validates a container's own restart policy and its rules by exit code (KEP-5307). */
function restartCauses(container: unknown, path: string, isSidecar: boolean): StatusCause[] {
  const policy = valueAt(container, "restartPolicy");
  const rules = listAt(container, "restartPolicyRules");
  const field = `${path}.restartPolicyRules`;
  if (isSidecar) {
    const detail = "restartPolicyRules are not allowed for init containers with restart policy Always";
    return rules.length > 0 ? [forbiddenCause(field, detail)] : [];
  }
  const causes = check.oneOf(`${path}.restartPolicy`, policy, restartPolicies);
  if (policy === undefined && rules.length > 0) {
    causes.push(requiredCause(`${path}.restartPolicy`, "must specify restartPolicy when restart rules are used"));
  }
  if (rules.length > maxRestartRules) causes.push(tooLongCause(field, maxRestartRules));
  return [...causes, ...rules.flatMap((rule, index) => restartRuleCauses(rule, `${field}[${index}]`))];
}

function restartRuleCauses(rule: unknown, path: string): StatusCause[] {
  const causes = check.oneOf(`${path}.action`, textAt(rule, "action"), ["Restart"]);
  const codes = valueAt(rule, "exitCodes");
  if (codes === undefined) return [...causes, requiredCause(`${path}.exitCodes`, "must be specified")];
  causes.push(...check.oneOf(`${path}.exitCodes.operator`, textAt(codes, "operator"), ["In", "NotIn"]));
  if (listAt(codes, "values").length > maxExitCodes) causes.push(tooLongCause(`${path}.exitCodes.values`, maxExitCodes));
  return causes;
}

/** Validates the probes, hooks and restart policy of one container. */
function lifeCauses(container: unknown, path: string, field: string, graceSeconds: unknown): StatusCause[] {
  const causes: StatusCause[] = [];
  const policy = valueAt(container, "restartPolicy");
  const isSidecar = field === "initContainers" && policy === "Always";
  if (field !== "ephemeralContainers") causes.push(...restartCauses(container, path, isSidecar));
  const mayProbe = field === "containers" || isSidecar;
  for (const name of ["livenessProbe", "readinessProbe", "startupProbe"]) {
    const probe = valueAt(container, name);
    if (probe === undefined) continue;
    const at = `${path}.${name}`;
    if (!mayProbe) {
      const detail = "may not be set for init containers without restartPolicy=Always";
      causes.push(forbiddenCause(at, field === "initContainers" ? detail : "probes not allowed for ephemeral containers"));
      continue;
    }
    causes.push(...handlerCauses(probe, at, graceSeconds));
    for (const number of ["initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"]) {
      causes.push(...check.atLeast(`${at}.${number}`, valueAt(probe, number)));
    }
    const probeGrace = valueAt(probe, "terminationGracePeriodSeconds");
    causes.push(...check.atLeast(`${at}.terminationGracePeriodSeconds`, probeGrace, 1));
    if (name === "readinessProbe" && probeGrace !== undefined) {
      causes.push(invalidCause(`${at}.terminationGracePeriodSeconds`, probeGrace, "must not be set for readinessProbes"));
    }
    const threshold = valueAt(probe, "successThreshold");
    if (name !== "readinessProbe" && typeof threshold === "number" && threshold !== 1) {
      causes.push(invalidCause(`${at}.successThreshold`, threshold, "must be 1"));
    }
  }
  for (const hook of ["postStart", "preStop"]) {
    const handler = valueAt(container, "lifecycle", hook);
    if (handler === undefined) continue;
    if (mayProbe) causes.push(...handlerCauses(handler, `${path}.lifecycle.${hook}`, graceSeconds));
    else causes.push(forbiddenCause(`${path}.lifecycle`, "may not be set for init containers without restartPolicy=Always"));
  }
  return causes;
}
