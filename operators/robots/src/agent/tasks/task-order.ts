import { isJsonObject, type JsonObject } from "@keelson/api-machinery";
import { quantityToBytes, quantityToMillis } from "@keelson/api-machinery/quantity";
import type { Limits } from "@keelson/execution";
import { checksProblem, readChecks, type TaskCheck } from "../checks/task-checks.ts";
import { readPorts, type TaskPort } from "../checks/task-ports.ts";
import { bareNumber, parseResourceRequest } from "../../placement/resource-request.ts";
import { deviceVariables, forbiddenDevice, type TaskDevice, taskDevices } from "../devices/task-devices.ts";
import { containerProblem, type ContainerOrder, readContainer } from "../containers/container-order.ts";
import { adoptsOf, durationMs, isLeased, leaseMs, type LocalRestart, restartOf } from "../order-lifetime.ts";
import { commandOf } from "./task-command.ts";
import { child, InvalidField, own, text } from "./task-fields.ts";
import { type InitOrder, readInitTasks } from "./init-order.ts";
import { metaVariables, variables } from "./task-variables.ts";
import { taskUidPattern } from "../../protocol/messages.ts";
import { type Artifact, readArtifacts, sourceProblem } from "../files/artifact.ts";
import { readTaskTemplates, type TaskTemplate } from "../files/task-template.ts";
import type { AgentPolicy } from "../policy/agent-policy.ts";
import { programProblem, type TaskIsolation } from "../policy/robot-policy.ts";

/** The program of a task, validated. It is JSON, so that it can be recorded before it runs. */
export interface TaskOrder {
  readonly command: readonly [string, ...string[]];
  /** The task's variables and those that identify it. The agent adds PATH and HOME. */
  readonly env: Readonly<Record<string, string>>;
  readonly user?: string;
  readonly timeoutMs?: number;
  readonly killGraceMs?: number;
  readonly limits?: Limits;
  /** Set if the robot restarts the program itself. */
  readonly restart?: LocalRestart;
  /** A file to write before the program starts. `path` is relative to the task's directory. */
  readonly payload?: { readonly path: string; readonly base64: string };
  /** Files to fetch before the program starts. */
  readonly artifacts?: readonly Artifact[];
  /** Files to render before the program starts, and again when their values change. */
  readonly templates?: readonly TaskTemplate[];
  /** Metadata for templates. */
  readonly meta?: Readonly<Record<string, string>>;
  /** Set if the program is a container, whose command this is not. */
  readonly container?: ContainerOrder;
  /** Ports of the program. */
  readonly ports?: readonly TaskPort[];
  /** Health checks of the program. */
  readonly checks?: readonly TaskCheck[];
  /** Devices that the program gets. */
  readonly devices?: readonly TaskDevice[];
  /** What the program can see of the robot. Unset: everything that its user can. */
  readonly isolation?: TaskIsolation;
  /** Programs to run before it. */
  readonly init?: readonly InitOrder[];
  /** Set if the program may run only while the robot holds a lease of this duration. */
  readonly lease?: { readonly durationMs: number; readonly graceMs: number };
}

/** A parsed dispatch message. It has `problem`, which names the field, instead of `order` if the task cannot run here. */
export type Dispatch =
  | {
      readonly action: "create";
      readonly uid: string;
      readonly attempt: number;
      readonly order: TaskOrder;
      /** Earlier attempt whose program continues as this one. */
      readonly adopts?: number;
    }
  | { readonly action: "create"; readonly uid: string; readonly attempt: number; readonly problem: string }
  | { readonly action: "delete"; readonly uid: string; readonly attempt: number };

/** `killTimeout` of a task that has none. */
const defaultGraceMs = 5_000;

function amount(resources: JsonObject, field: string, read: (value: string | number) => number): number | undefined {
  const value = own(resources, field);
  if (value === undefined || value === null) return undefined;
  let found = Number.NaN;
  try {
    if (typeof value === "string" || typeof value === "number") found = read(value);
  } catch {
    // Not a quantity; reported below.
  }
  if (!Number.isSafeInteger(found) || found < 0) {
    throw new InvalidField(`spec.resources.${field}: ${JSON.stringify(value)} must be a quantity such as 500m or 64Mi`);
  }
  return found === 0 ? undefined : found;
}

function orderOf(task: JsonObject, uid: string, attempt: number, policy: AgentPolicy): TaskOrder {
  const spec = child(task, "spec");
  const target = text(spec, "targetRobot", "spec");
  if (target !== undefined && target !== policy.robotId) {
    throw new InvalidField(`spec.targetRobot is ${target}, but this is robot ${policy.robotId}`);
  }
  const command = commandOf(spec, policy);
  const metadata = child(task, "metadata");
  const identity = {
    K8S4R_JOB: text(spec, "jobName", "spec"),
    K8S4R_TASK_GROUP: text(spec, "taskGroupName", "spec"),
    K8S4R_TASK: text(spec, "name", "spec"),
    K8S4R_TASK_INDEX: text(child(metadata, "labels"), "taskindex", "metadata.labels"),
    K8S4R_TASK_UID: uid,
    K8S4R_ROBOT: policy.robotId,
    K8S4R_ATTEMPT: String(attempt),
  };
  const payload = payloadOf(spec);
  const devices = taskDevices(spec, policy);
  const user = text(spec, "user", "spec");
  const container = own(spec, "driver") === "docker" ? readContainer(child(child(spec, "config"), "dockerConfig")) : undefined;
  if (container !== undefined && devices.length > 0)
    throw new InvalidField("spec.resources.devices: the docker driver has none");
  const forbidden =
    container === undefined
      ? programProblem(policy, { command: command[0], user })
      : containerProblem(policy.docker, container);
  if (forbidden !== undefined) throw new InvalidField(forbidden);
  const timeoutMs = durationMs(spec, "timeout");
  const killGraceMs = durationMs(spec, "killTimeout");
  return {
    command,
    env: {
      ...metaVariables(own(spec, "meta")),
      ...variables(own(spec, "env")),
      ...deviceVariables(devices),
      ...Object.fromEntries(Object.entries(identity).flatMap(([name, value]) => (value === undefined ? [] : [[name, value]]))),
    },
    ...(user !== undefined && { user }),
    ...(timeoutMs !== undefined && timeoutMs > 0 && { timeoutMs }),
    ...(killGraceMs !== undefined && { killGraceMs }),
    ...restartOf(task, spec),
    ...(payload !== undefined && { payload }),
    ...(container !== undefined && { container }),
    ...(devices.length > 0 && { devices }),
    ...readInitTasks(spec, policy),
    ...servicesOf(spec, policy),
    ...filesOf(spec, policy),
    ...(policy.isolation !== undefined && isIsolated(own(spec, "driver")) && { isolation: policy.isolation }),
    ...(isLeased(task, attempt) && { lease: { durationMs: leaseMs(task, spec), graceMs: killGraceMs ?? defaultGraceMs } }),
    ...limitsOf(spec),
  };
}

function limitsOf(spec: JsonObject): Pick<TaskOrder, "limits"> {
  const resources = child(spec, "resources");
  // A bare cpu number is a share in MHz, as in Nomad, and not a limit.
  const isShare = bareNumber(own(resources, "cpu")) !== undefined;
  const cpuMillis = isShare ? undefined : amount(resources, "cpu", quantityToMillis);
  const memoryBytes = amount(resources, "memory", (value) =>
    bareNumber(value) === undefined ? quantityToBytes(value) : parseResourceRequest({ memory: value }).memoryBytes,
  );
  if (cpuMillis === undefined && memoryBytes === undefined) return {};
  return { limits: { ...(cpuMillis !== undefined && { cpuMillis }), ...(memoryBytes !== undefined && { memoryBytes }) } };
}

const isIsolated = (driver: unknown): boolean => driver !== "raw_exec" && driver !== "docker";

/** Why a task that was accepted under an earlier policy may no longer start; undefined if it may. */
export function orderProblem(policy: AgentPolicy, order: TaskOrder): string | undefined {
  const { command, user, artifacts = [], devices = [], checks = [], init = [], container, isolation } = order;
  if (
    container === undefined &&
    policy.isolation !== undefined &&
    isolation === undefined &&
    !policy.drivers.includes("raw_exec")
  ) {
    return "spec.driver: the robot's policy requires isolation";
  }
  for (const [index, { url, sha256 }] of artifacts.entries()) {
    const problem = sourceProblem(policy.artifacts, new URL(url), sha256);
    if (problem !== undefined) return `spec.artifacts[${index}]${problem}`;
  }
  const forbidden = checksProblem(policy, checks);
  if (forbidden !== undefined) return forbidden;
  for (const each of init) {
    const problem = programProblem(policy, { command: each.command[0], user: each.user ?? user });
    if (problem !== undefined) return problem;
  }
  if (container !== undefined) return containerProblem(policy.docker, container);
  return forbiddenDevice(policy, devices) ?? programProblem(policy, { command: command[0], user });
}

/** An order with the isolation of the current policy. An isolated program stays isolated. */
export function underPolicy(policy: AgentPolicy, order: TaskOrder): TaskOrder {
  if (order.isolation === undefined || policy.isolation === undefined) return order;
  return { ...order, isolation: policy.isolation };
}

function servicesOf(spec: JsonObject, policy: AgentPolicy): Pick<TaskOrder, "ports" | "checks"> {
  const [ports, checks] = [readPorts(child(spec, "resources")), readChecks(spec, policy)];
  return { ...(ports.length > 0 && { ports }), ...(checks.length > 0 && { checks }) };
}

function filesOf(spec: JsonObject, policy: AgentPolicy): Pick<TaskOrder, "artifacts" | "templates" | "meta"> {
  const artifacts = readArtifacts(own(spec, "artifacts"), policy.artifacts);
  if (typeof artifacts === "string") throw new InvalidField(artifacts);
  const templates = readTaskTemplates(own(spec, "templates"));
  if (typeof templates === "string") throw new InvalidField(templates);
  const meta = Object.entries(child(spec, "meta")).flatMap(([key, value]) => (typeof value === "string" ? [[key, value]] : []));
  return {
    ...(artifacts.length > 0 && { artifacts }),
    ...(templates.length > 0 && { templates, meta: Object.fromEntries(meta) }),
  };
}

function payloadOf(spec: JsonObject): TaskOrder["payload"] {
  const path = text(child(spec, "dispatchPayload"), "file", "spec.dispatchPayload");
  const base64 = text(spec, "payload", "spec");
  if (path === undefined || base64 === undefined) return undefined;
  if (!payloadPathPattern.test(path)) {
    throw new InvalidField(`spec.dispatchPayload.file: ${JSON.stringify(path)} must be a path below the task's directory`);
  }
  return { path, base64 };
}

/** A relative path whose parts do not begin with a dot. */
const payloadPathPattern = /^[A-Za-z0-9_][A-Za-z0-9_.-]*(?:\/[A-Za-z0-9_][A-Za-z0-9_.-]*)*$/;

/**
 * Parses a dispatch message. Returns a string, the reason, if the message cannot even be answered (it has no uid that may become a
 * topic and a directory). A task without `status.attempt` comes from an original server, which has no attempts: it is attempt 0.
 */
export function readDispatch(payload: Uint8Array, policy: AgentPolicy): Dispatch | string {
  let message: unknown;
  try {
    message = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(payload));
  } catch {
    return "payload is not valid JSON";
  }
  if (!isJsonObject(message)) return "payload must be a JSON object";
  const action = own(message, "action");
  if (action !== "create" && action !== "delete") return "action must be create or delete";
  const task = child(message, "task");
  const uid = own(child(task, "metadata"), "uid");
  if (typeof uid !== "string" || !taskUidPattern.test(uid)) return "task.metadata.uid must be a UUID";
  const attempt = own(child(task, "status"), "attempt") ?? 0;
  if (typeof attempt !== "number" || !Number.isInteger(attempt) || attempt < 0 || attempt >= 2 ** 31) {
    return "task.status.attempt must be a whole number";
  }
  if (action === "delete") return { action, uid, attempt };
  try {
    return { action, uid, attempt, order: orderOf(task, uid, attempt, policy), ...adoptsOf(task, policy.robotId) };
  } catch (error) {
    if (error instanceof InvalidField) return { action, uid, attempt, problem: error.message };
    throw error;
  }
}
