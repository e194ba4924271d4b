import { isJsonObject, type JsonObject } from "@keelson/api-machinery";
import { quantityToBytes, quantityToMillis } from "@keelson/api-machinery/quantity";
import { parseDuration } from "@keelson/api-machinery/time";
import type { Limits } from "@keelson/execution";
import { taskUidPattern } from "../protocol/messages.ts";

/** What a task asks a robot to run, after it was checked. JSON, so that it can be written down before it runs. */
export interface TaskOrder {
  readonly command: readonly [string, ...string[]];
  /** The task's own variables and those that say what it is; PATH and HOME are the agent's to add. */
  readonly env: Readonly<Record<string, string>>;
  readonly user?: string;
  readonly timeoutMs?: number;
  readonly killGraceMs?: number;
  readonly limits?: Limits;
}

/** A dispatch message, read. `problem` instead of an order where the task cannot run here; it names the field. */
export type Dispatch =
  | { readonly action: "create"; readonly uid: string; readonly attempt: number; readonly order: TaskOrder }
  | { readonly action: "create"; readonly uid: string; readonly attempt: number; readonly problem: string }
  | { readonly action: "delete"; readonly uid: string; readonly attempt: number };

/** What the robot's owner allows. */
export interface AgentPolicy {
  readonly robotId: string;
  /** Of `exec` and `raw_exec`; others are refused. */
  readonly drivers: readonly string[];
}

/** A field that cannot be used, with its name. */
class FieldProblem extends Error {
  override readonly name = "FieldProblem";
}

const own = (object: JsonObject, field: string): unknown => (Object.hasOwn(object, field) ? object[field] : undefined);

const child = (object: JsonObject, field: string): JsonObject => {
  const value = own(object, field);
  return isJsonObject(value) ? value : {};
};

function text(object: JsonObject, field: string, path: string): string | undefined {
  const value = own(object, field);
  if (value === undefined || value === null || value === "") return undefined;
  if (typeof value !== "string" || value.includes("\0")) throw new FieldProblem(`${path}.${field} has to be a text`);
  return value;
}

function texts(value: unknown, path: string): readonly string[] {
  if (value === undefined || value === null) return [];
  const isGood = Array.isArray(value) && value.every((item) => typeof item === "string" && !item.includes("\0"));
  if (!isGood) throw new FieldProblem(`${path} has to be a list of texts`);
  return value;
}

function variables(value: unknown): Readonly<Record<string, string>> {
  if (value === undefined || value === null) return {};
  if (!isJsonObject(value)) throw new FieldProblem("spec.env has to map names to texts");
  for (const [name, content] of Object.entries(value)) {
    if (name === "" || /[=\0]/.test(name))
      throw new FieldProblem(`spec.env: ${JSON.stringify(name)} cannot be a variable's name`);
    if (typeof content !== "string" || content.includes("\0")) throw new FieldProblem(`spec.env.${name} has to be a text`);
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
    throw new FieldProblem(`spec.${field}: ${JSON.stringify(value)} has to be a duration like 90s or 1m30s`);
  }
  if (!(ms >= 0)) throw new FieldProblem(`spec.${field}: ${JSON.stringify(value)} has to be positive`);
  return Math.ceil(ms);
}

function amount(resources: JsonObject, field: string, read: (value: string | number) => number): number | undefined {
  const value = own(resources, field);
  if (value === undefined || value === null) return undefined;
  let found = Number.NaN;
  try {
    if (typeof value === "string" || typeof value === "number") found = read(value);
  } catch {
    // Not a quantity: told below.
  }
  if (!Number.isSafeInteger(found) || found < 0) {
    throw new FieldProblem(`spec.resources.${field}: ${JSON.stringify(value)} has to be a quantity like 500m or 64Mi`);
  }
  return found === 0 ? undefined : found;
}

function commandOf(spec: JsonObject, policy: AgentPolicy): readonly [string, ...string[]] {
  const driver = own(spec, "driver");
  if (typeof driver !== "string" || !policy.drivers.includes(driver)) {
    throw new FieldProblem(
      `spec.driver: robot ${policy.robotId} has no driver ${JSON.stringify(driver)}; it has ${policy.drivers.join(", ")}`,
    );
  }
  const config = child(child(spec, "config"), "execConfig");
  const command = text(config, "command", "spec.config.execConfig");
  if (command === undefined) throw new FieldProblem(`spec.config.execConfig.command is missing; the driver ${driver} needs it`);
  return [command, ...texts(own(config, "args"), "spec.config.execConfig.args")];
}

function orderOf(task: JsonObject, uid: string, attempt: number, policy: AgentPolicy): TaskOrder {
  const spec = child(task, "spec");
  const target = text(spec, "targetRobot", "spec");
  if (target !== undefined && target !== policy.robotId) {
    throw new FieldProblem(`spec.targetRobot is ${target}, and this is robot ${policy.robotId}`);
  }
  for (const field of ["artifacts", "templates"]) {
    const value = own(spec, field);
    if (Array.isArray(value) && value.length > 0)
      throw new FieldProblem(`spec.${field}: this agent cannot fetch or make files for a task`);
  }
  const command = commandOf(spec, policy);
  const metadata = child(task, "metadata");
  const about = {
    K8S4R_JOB: text(spec, "jobName", "spec"),
    K8S4R_TASK_GROUP: text(spec, "taskGroupName", "spec"),
    K8S4R_TASK: text(spec, "name", "spec"),
    K8S4R_TASK_INDEX: text(child(metadata, "labels"), "taskindex", "metadata.labels"),
    K8S4R_TASK_UID: uid,
    K8S4R_ROBOT: policy.robotId,
    K8S4R_ATTEMPT: String(attempt),
  };
  const user = text(spec, "user", "spec");
  const timeoutMs = durationMs(spec, "timeout");
  const killGraceMs = durationMs(spec, "killTimeout");
  const resources = child(spec, "resources");
  const cpuMillis = amount(resources, "cpu", quantityToMillis);
  const memoryBytes = amount(resources, "memory", quantityToBytes);
  return {
    command,
    env: {
      ...variables(own(spec, "env")),
      ...Object.fromEntries(Object.entries(about).flatMap(([name, value]) => (value === undefined ? [] : [[name, value]]))),
    },
    ...(user !== undefined && { user }),
    ...(timeoutMs !== undefined && timeoutMs > 0 && { timeoutMs }),
    ...(killGraceMs !== undefined && { killGraceMs }),
    ...((cpuMillis !== undefined || memoryBytes !== undefined) && {
      limits: { ...(cpuMillis !== undefined && { cpuMillis }), ...(memoryBytes !== undefined && { memoryBytes }) },
    }),
  };
}

/**
 * Reads a dispatch message. Text: why it cannot even be answered (there is no uid that may become a topic and a folder).
 * A task without `status.attempt` comes from an original server, which has no attempts: it is attempt 0.
 */
export function readDispatch(payload: Uint8Array, policy: AgentPolicy): Dispatch | string {
  let message: unknown;
  try {
    message = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(payload));
  } catch {
    return "it is not JSON";
  }
  if (!isJsonObject(message)) return "it is no object";
  const action = own(message, "action");
  if (action !== "create" && action !== "delete") return "action has to be create or delete";
  const task = child(message, "task");
  const uid = own(child(task, "metadata"), "uid");
  if (typeof uid !== "string" || !taskUidPattern.test(uid)) return "task.metadata.uid has to be a UUID";
  const attempt = own(child(task, "status"), "attempt") ?? 0;
  if (typeof attempt !== "number" || !Number.isInteger(attempt) || attempt < 0 || attempt >= 2 ** 31) {
    return "task.status.attempt has to be a whole number";
  }
  if (action === "delete") return { action, uid, attempt };
  try {
    return { action, uid, attempt, order: orderOf(task, uid, attempt, policy) };
  } catch (error) {
    if (error instanceof FieldProblem) return { action, uid, attempt, problem: error.message };
    throw error;
  }
}
