import { isJsonObject, type JsonObject } from "@keelson/api-machinery";
import { quantityToBytes, quantityToMillis } from "@keelson/api-machinery/quantity";
import { parseDuration } from "@keelson/api-machinery/time";
import type { Limits } from "@keelson/execution";
import { bareNumber, parseResourceRequest } from "../placement/resource-request.ts";
import type { RestartPolicy } from "../api/policies.ts";
import { completeRestartPolicy } from "../work/restart-policy.ts";
import { defaultLostAfterMs, minLostAfterMs } from "../work/disconnect-policy.ts";
import { taskUidPattern } from "../protocol/messages.ts";

/** The program of a task, validated. It is JSON, so that it can be recorded before it runs. */
export interface TaskOrder {
  readonly command: readonly [string, ...string[]];
  /** The task's variables and those that identify it. The agent adds PATH and HOME. */
  readonly env: Readonly<Record<string, string>>;
  readonly user?: string;
  readonly timeoutMs?: number;
  readonly killGraceMs?: number;
  readonly limits?: Limits;
  /** Set if the robot restarts the program itself. `count` is the number of restarts before this attempt. */
  readonly restart?: { readonly policy: RestartPolicy; readonly count: number };
  /** A file to write before the program starts. `path` is relative to the task's folder. */
  readonly payload?: { readonly path: string; readonly base64: string };
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

/** What the robot's owner allows. */
export interface AgentPolicy {
  readonly robotId: string;
  /** Allowed drivers, of `exec` and `raw_exec`. */
  readonly drivers: readonly string[];
}

/** A field has an invalid value. The message starts with the field. */
class InvalidField extends Error {
  override readonly name = "InvalidField";
}

const own = (object: JsonObject, field: string): unknown => (Object.hasOwn(object, field) ? object[field] : undefined);

const child = (object: JsonObject, field: string): JsonObject => {
  const value = own(object, field);
  return isJsonObject(value) ? value : {};
};

function text(object: JsonObject, field: string, path: string): string | undefined {
  const value = own(object, field);
  if (value === undefined || value === null || value === "") return undefined;
  if (typeof value !== "string" || value.includes("\0")) throw new InvalidField(`${path}.${field} must be a string`);
  return value;
}

function texts(value: unknown, path: string): readonly string[] {
  if (value === undefined || value === null) return [];
  const isValid = Array.isArray(value) && value.every((item) => typeof item === "string" && !item.includes("\0"));
  if (!isValid) throw new InvalidField(`${path} must be a list of strings`);
  return value;
}

function variables(value: unknown): Readonly<Record<string, string>> {
  if (value === undefined || value === null) return {};
  if (!isJsonObject(value)) throw new InvalidField("spec.env must be an object with string values");
  for (const [name, content] of Object.entries(value)) {
    if (name === "" || /[=\0]/.test(name)) {
      throw new InvalidField(`spec.env: ${JSON.stringify(name)} is not a valid variable name`);
    }
    if (typeof content !== "string" || content.includes("\0")) throw new InvalidField(`spec.env.${name} must be a string`);
  }
  return Object.fromEntries(Object.entries(value).map(([name, content]) => [name, String(content)]));
}

function durationMs(spec: JsonObject, field: string): number | undefined {
  const value = text(spec, field, "spec");
  if (value === undefined) return undefined;
  let ms: number;
  try {
    ms = parseDuration(value);
  } catch {
    throw new InvalidField(`spec.${field}: ${JSON.stringify(value)} must be a duration such as 90s or 1m30s`);
  }
  if (!(ms >= 0)) throw new InvalidField(`spec.${field}: ${JSON.stringify(value)} must not be negative`);
  return Math.ceil(ms);
}

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

function commandOf(spec: JsonObject, policy: AgentPolicy): readonly [string, ...string[]] {
  const driver = own(spec, "driver");
  if (typeof driver !== "string" || !policy.drivers.includes(driver)) {
    throw new InvalidField(
      `spec.driver: robot ${policy.robotId} has no driver ${JSON.stringify(driver)}; it has ${policy.drivers.join(", ")}`,
    );
  }
  const config = child(child(spec, "config"), "execConfig");
  const command = text(config, "command", "spec.config.execConfig");
  if (command === undefined) {
    throw new InvalidField(`spec.config.execConfig.command is missing; the driver ${driver} requires it`);
  }
  return [command, ...texts(own(config, "args"), "spec.config.execConfig.args")];
}

function orderOf(task: JsonObject, uid: string, attempt: number, policy: AgentPolicy): TaskOrder {
  const spec = child(task, "spec");
  const target = text(spec, "targetRobot", "spec");
  if (target !== undefined && target !== policy.robotId) {
    throw new InvalidField(`spec.targetRobot is ${target}, but this is robot ${policy.robotId}`);
  }
  for (const field of ["artifacts", "templates"]) {
    const value = own(spec, field);
    if (Array.isArray(value) && value.length > 0) throw new InvalidField(`spec.${field}: not supported by this agent`);
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
  const user = text(spec, "user", "spec");
  const timeoutMs = durationMs(spec, "timeout");
  const killGraceMs = durationMs(spec, "killTimeout");
  const resources = child(spec, "resources");
  // A bare cpu number is a share in MHz, as in Nomad, and not a limit.
  const isShare = bareNumber(own(resources, "cpu")) !== undefined;
  const cpuMillis = isShare ? undefined : amount(resources, "cpu", quantityToMillis);
  const memoryBytes = amount(resources, "memory", (value) =>
    bareNumber(value) === undefined ? quantityToBytes(value) : parseResourceRequest({ memory: value }).memoryBytes,
  );
  return {
    command,
    env: {
      ...metaVariables(own(spec, "meta")),
      ...variables(own(spec, "env")),
      ...Object.fromEntries(Object.entries(identity).flatMap(([name, value]) => (value === undefined ? [] : [[name, value]]))),
    },
    ...(user !== undefined && { user }),
    ...(timeoutMs !== undefined && timeoutMs > 0 && { timeoutMs }),
    ...(killGraceMs !== undefined && { killGraceMs }),
    ...restartOf(task, spec),
    ...(payload !== undefined && { payload }),
    ...(isLeased(task, attempt) && { lease: { durationMs: leaseMs(spec), graceMs: killGraceMs ?? defaultGraceMs } }),
    ...((cpuMillis !== undefined || memoryBytes !== undefined) && {
      limits: { ...(cpuMillis !== undefined && { cpuMillis }), ...(memoryBytes !== undefined && { memoryBytes }) },
    }),
  };
}

/** `K8S4R_META_<KEY>` for every entry of the metadata, in upper case, with `_` for what a variable name cannot contain. */
function metaVariables(meta: unknown): Readonly<Record<string, string>> {
  if (!isJsonObject(meta)) return {};
  return Object.fromEntries(
    Object.entries(meta).flatMap(([key, value]) =>
      typeof value === "string" && !value.includes("\0")
        ? [[`K8S4R_META_${key.toUpperCase().replace(/[^A-Z0-9]/g, "_")}`, value]]
        : [],
    ),
  );
}

function payloadOf(spec: JsonObject): TaskOrder["payload"] {
  const path = text(child(spec, "dispatchPayload"), "file", "spec.dispatchPayload");
  const base64 = text(spec, "payload", "spec");
  if (path === undefined || base64 === undefined) return undefined;
  if (!payloadPathPattern.test(path)) {
    throw new InvalidField(`spec.dispatchPayload.file: ${JSON.stringify(path)} must be a path below the task's folder`);
  }
  return { path, base64 };
}

/** A relative path whose parts do not begin with a dot. */
const payloadPathPattern = /^[A-Za-z0-9_][A-Za-z0-9_.-]*(?:\/[A-Za-z0-9_][A-Za-z0-9_.-]*)*$/;

/** A service is restarted by the robot, so that it needs no network for it. */
function restartOf(task: JsonObject, spec: JsonObject): Pick<TaskOrder, "restart"> {
  const type = own(spec, "type");
  const policy = own(spec, "restartPolicy");
  if ((type !== "service" && type !== "system") || !isJsonObject(policy)) return {};
  const { attempts, mode } = policy;
  if (attempts === 0) return {};
  const interval = text(policy, "interval", "spec.restartPolicy");
  const delay = text(policy, "delay", "spec.restartPolicy");
  const count = own(child(task, "status"), "restartCount");
  return {
    restart: {
      policy: completeRestartPolicy(
        {
          ...(typeof attempts === "number" ? { attempts } : {}),
          ...(interval === undefined ? {} : { interval }),
          ...(delay === undefined ? {} : { delay }),
          ...(mode === "delay" || mode === "fail" ? { mode } : {}),
        },
        type,
      ),
      count: typeof count === "number" ? count : 0,
    },
  };
}

/** Whether the server dispatched an attempt with a lease. */
function isLeased(task: JsonObject, attempt: number): boolean {
  return own(child(child(task, "status"), "lease"), "attempt") === attempt;
}

function leaseMs(spec: JsonObject): number {
  return Math.max(durationMs(child(spec, "disconnect"), "lostAfter") ?? defaultLostAfterMs, minLostAfterMs);
}

/** The attempt that this one adopts, if it ran on this robot. */
function adoptsOf(task: JsonObject, robotId: string): { readonly adopts?: number } {
  const { robot, attempt } = child(child(task, "status"), "adopted");
  return robot === robotId && typeof attempt === "number" ? { adopts: attempt } : {};
}

/**
 * Parses a dispatch message. Returns a string, the reason, if the message cannot even be answered (it has no uid that may become a
 * topic and a folder). A task without `status.attempt` comes from an original server, which has no attempts: it is attempt 0.
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
