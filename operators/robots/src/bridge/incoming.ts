import { isJsonObject, type JsonObject, setOwn } from "@keelson/api-machinery";
import { Check, Clean } from "typebox/value";
import { DeviceInfo } from "../api/device-info.ts";
import { type JoinRequest, readJoinRequest } from "../identity/join-request.ts";
import { type ExecReport, readExecReport } from "../protocol/exec-messages.ts";
import { clean, type GetField, isCount } from "./incoming-fields.ts";
import { readSignalAnswer } from "./signals/read-signal-answer.ts";
import {
  type LeaseRequest,
  type RegisterMessage,
  type RejectedMessage,
  robotIdPattern,
  type SignalAnswer,
  type StatusMessage,
  taskUidPattern,
  topics,
} from "../protocol/messages.ts";

/** Maximum size of a payload. */
export const maxPayloadBytes = 256 * 1024;

const maxLabels = 64;
/** An agent does not limit its live tasks: {@link maxPayloadBytes} permits about as many. */
const maxHeldTasks = 4096;
const maxMessageLength = 4096;
const maxLogLength = 4096;
const maxTokenLength = 1024;
const maxNames = 16;
const maxNameLength = 64;

const states = ["dispatching", "running", "completed", "failed", "deleted"] as const;

/** A validated message of an agent. */
export type Incoming =
  /** `isOwnTopic`: on the robot's own topic, to which a broker lets only this robot publish. */
  | { readonly kind: "register" | "heartbeat"; readonly isOwnTopic: boolean; readonly message: RegisterMessage }
  | { readonly kind: "status"; readonly robotId: string; readonly message: StatusMessage }
  | { readonly kind: "online"; readonly robotId: string; readonly online: boolean }
  | { readonly kind: "lease"; readonly robotId: string; readonly message: LeaseRequest }
  | { readonly kind: "join"; readonly robotId: string; readonly message: JoinRequest }
  | { readonly kind: "signal-answer"; readonly robotId: string; readonly message: SignalAnswer }
  | { readonly kind: "exec"; readonly robotId: string; readonly message: ExecReport }
  | { readonly kind: "rejected"; readonly robotId: string; readonly message: RejectedMessage };

/** Why a message is not valid. */
export interface Rejection {
  readonly rejected: string;
}

/**
 * Parses an untrusted message of an agent. Text is cut to its maximum length and stripped of control characters; a field of the wrong
 * type rejects the message.
 *
 * **Errors**: never throws; returns a {@link Rejection} with the reason.
 */
export function readIncoming(topic: string, payload: Uint8Array): Incoming | Rejection {
  const parsed = parseTopic(topic);
  if (parsed === undefined) return { rejected: "not a topic that agents publish to" };
  if (payload.length > maxPayloadBytes) {
    return { rejected: `payload is ${payload.length} bytes; must be at most ${maxPayloadBytes} bytes` };
  }
  let body: unknown;
  try {
    body = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(payload));
  } catch {
    return { rejected: "payload is not valid JSON" };
  }
  if (!isJsonObject(body)) return { rejected: "payload must be a JSON object" };
  const get: GetField = (field) => (Object.hasOwn(body, field) ? body[field] : undefined);
  switch (parsed.kind) {
    case "online": {
      const online = get("online");
      return typeof online === "boolean"
        ? { kind: "online", robotId: parsed.robotId, online }
        : { rejected: "online must be true or false" };
    }
    case "lease":
      return readLeaseRequest(parsed.robotId, get);
    case "status":
      return readStatus(parsed.robotId, parsed.uid, get);
    case "join": {
      const message = readJoinRequest(body, parsed.robotId);
      return message === undefined
        ? { rejected: "not a valid join request" }
        : { kind: "join", robotId: parsed.robotId, message };
    }
    case "signal-answer": {
      const message = readSignalAnswer(get);
      return typeof message === "string" ? { rejected: message } : { kind: "signal-answer", robotId: parsed.robotId, message };
    }
    case "exec": {
      const message = readExecReport(body);
      return typeof message === "string" ? { rejected: message } : { kind: "exec", robotId: parsed.robotId, message };
    }
    case "rejected": {
      const [topicName, reason] = [get("topic"), get("reason")];
      if (typeof topicName !== "string" || typeof reason !== "string") return { rejected: "topic and reason must be strings" };
      const message = { topic: clean(topicName, 200), reason: clean(reason, 200) };
      return { kind: "rejected", robotId: parsed.robotId, message };
    }
    default: {
      const { robotId } = parsed;
      if (robotId !== undefined && get("robotId") !== robotId) return { rejected: "robotId must match the topic" };
      return readRegister(parsed.kind, robotId !== undefined, get);
    }
  }
}

/** The robot whose topic this is. Undefined for topics that robots share, and for others. */
export function robotOfTopic(topic: string): string | undefined {
  return parseTopic(topic)?.robotId;
}

/** The robot that a message is from. */
export const robotIdOf = (incoming: Incoming): string => ("robotId" in incoming ? incoming.robotId : incoming.message.robotId);

const robotTopics = ["online", "lease", "join", "rejected"] as const;

type ParsedTopic =
  | { readonly kind: "register" | "heartbeat"; readonly robotId?: string }
  | { readonly kind: (typeof robotTopics)[number] | "signal-answer" | "exec"; readonly robotId: string }
  | { readonly kind: "status"; readonly robotId: string; readonly uid: string };

function parseTopic(topic: string): ParsedTopic | undefined {
  if (topic === topics.register) return { kind: "register" };
  if (topic === topics.heartbeat) return { kind: "heartbeat" };
  const [root, robots, robotId, ...rest] = topic.split("/");
  if (root !== "k8s4r" || robots !== "robots" || robotId === undefined || !robotIdPattern.test(robotId)) return undefined;
  if (rest.length === 1) {
    const [leaf] = rest;
    if (leaf === "register" || leaf === "heartbeat") return { kind: leaf, robotId };
    const kind = robotTopics.find((each) => each === leaf);
    return kind === undefined ? undefined : { kind, robotId };
  }
  if (rest.join("/") === "signals/answer") return { kind: "signal-answer", robotId };
  if (rest.join("/") === "exec/output") return { kind: "exec", robotId };
  const [tasks, uid, leaf] = rest;
  if (rest.length === 3 && tasks === "tasks" && uid !== undefined && taskUidPattern.test(uid) && leaf === "status") {
    return { kind: "status", robotId, uid };
  }
  return undefined;
}

function readLeaseRequest(robotId: string, get: GetField): Incoming | Rejection {
  const nonce = get("nonce");
  if (typeof nonce !== "string" || nonce.length > maxNameLength) {
    return { rejected: `nonce must be a string of at most ${maxNameLength} characters` };
  }
  const tasks = readHeldTasks(get("tasks"));
  if (tasks === undefined || tasks === null) return invalidTasks;
  return { kind: "lease", robotId, message: { nonce: clean(nonce, maxNameLength), tasks } };
}

function readRegister(kind: "register" | "heartbeat", isOwnTopic: boolean, get: GetField): Incoming | Rejection {
  const robotId = get("robotId");
  if (typeof robotId !== "string" || !robotIdPattern.test(robotId)) {
    return { rejected: "robotId must be a DNS label of at most 63 characters" };
  }
  const token = get("token") ?? "";
  if (typeof token !== "string" || token.length > maxTokenLength) {
    return { rejected: `token must be a string of at most ${maxTokenLength} characters` };
  }
  const deviceInfo = readDeviceInfo(get("deviceInfo"));
  const labels = readLabels(get("labels"));
  if (labels === null) return { rejected: `labels must be an object with at most ${maxLabels} string values` };
  const bootId = get("bootId");
  const instanceId = get("instanceId");
  const credential = get("credentialSha256");
  const drivers = readNames(get("drivers"));
  const features = readNames(get("features"));
  const tasks = readHeldTasks(get("tasks"));
  if (tasks === null) return invalidTasks;
  const nonce = get("nonce");
  return {
    kind,
    isOwnTopic,
    message: {
      robotId,
      token,
      ...(typeof nonce === "string" && nonce.length <= maxNameLength ? { nonce } : {}),
      ...(deviceInfo === undefined ? {} : { deviceInfo }),
      ...(labels === undefined ? {} : { labels }),
      ...(typeof bootId === "string" && bootId.length <= 128 ? { bootId: clean(bootId, 128) } : {}),
      ...(typeof instanceId === "string" && instanceId.length <= maxNameLength ? { instanceId: clean(instanceId, 64) } : {}),
      ...(typeof credential === "string" && /^[0-9a-f]{64}$/.test(credential) ? { credentialSha256: credential } : {}),
      ...(drivers === undefined ? {} : { drivers }),
      ...(features === undefined ? {} : { features }),
      ...(tasks === undefined ? {} : { tasks }),
    },
  };
}

/** Undefined if it does not match the schema: a robot with invalid measurements can still register. */
function readDeviceInfo(value: unknown): DeviceInfo | undefined {
  if (!isJsonObject(value) || !Check(DeviceInfo, value)) return undefined;
  return cleanTexts(Clean(DeviceInfo, value)) as DeviceInfo;
}

/** Undefined if it is not a short list of names. */
function readNames(value: unknown): readonly string[] | undefined {
  if (!Array.isArray(value) || value.length > maxNames) return undefined;
  return value.every((each) => typeof each === "string" && /^[a-z0-9_-]{1,64}$/.test(each)) ? (value as string[]) : undefined;
}

function readLabels(value: unknown): Record<string, string> | undefined | null {
  if (value === undefined || value === null) return undefined;
  if (!isJsonObject(value)) return null;
  const entries = Object.entries(value);
  if (entries.length > maxLabels) return null;
  const labels: Record<string, string> = {};
  for (const [key, text] of entries) {
    if (typeof text !== "string" || text.length > 256 || key.length > 256) return null;
    setOwn(labels, clean(key, 256), clean(text, 256));
  }
  return labels;
}

const invalidTasks: Rejection = { rejected: `tasks must be a list of at most ${maxHeldTasks} {taskUid, attempt}` };

function readHeldTasks(value: unknown): { taskUid: string; attempt: number }[] | undefined | null {
  if (value === undefined || value === null) return undefined;
  if (!Array.isArray(value) || value.length > maxHeldTasks) return null;
  const held: { taskUid: string; attempt: number }[] = [];
  for (const element of value) {
    if (!isJsonObject(element)) return null;
    const { taskUid, attempt } = element;
    if (typeof taskUid !== "string" || !taskUidPattern.test(taskUid) || !isCount(attempt)) return null;
    held.push({ taskUid, attempt });
  }
  return held;
}

function readStatus(robotId: string, uid: string, get: GetField): Incoming | Rejection {
  if (get("taskUid") !== uid) return { rejected: "taskUid must match the topic" };
  if (get("robotName") !== robotId) return { rejected: "robotName must match the topic" };
  const state = states.find((each) => each === get("state"));
  if (state === undefined) return { rejected: `state must be one of ${states.join(", ")}` };
  const [attempt, seq] = [get("attempt"), get("seq")];
  if (attempt !== undefined && !isCount(attempt)) return { rejected: "attempt must be a whole number" };
  if (seq !== undefined && !isCount(seq)) return { rejected: "seq must be a whole number" };
  const badTime = ["updatedAt", "startedAt", "finishedAt"].find((field) => isOutOfRange(readTime(get(field))));
  if (badTime !== undefined) return { rejected: `${badTime} must be between the years 0 and 9999` };
  const text = (field: string, length: number): string => {
    const value = get(field);
    return typeof value === "string" ? clean(value, length) : "";
  };
  const time = (field: string): string | undefined => {
    const ms = readTime(get(field));
    return Number.isNaN(ms) ? undefined : new Date(ms).toISOString();
  };
  const whole = (field: string): number | undefined => {
    const value = get(field);
    return typeof value === "number" && Number.isInteger(value) && Math.abs(value) < 2 ** 31 ? value : undefined;
  };
  const message: JsonObject = {
    taskUid: uid,
    robotName: robotId,
    state,
    message: text("message", maxMessageLength),
    event: text("event", 64),
    updatedAt: time("updatedAt") ?? "",
  };
  for (const [field, value] of [
    ["attempt", attempt as number | undefined],
    ["seq", seq as number | undefined],
    ["exitCode", whole("exitCode")],
    ["signal", whole("signal")],
    ["restartCount", whole("restartCount")],
    ["startedAt", time("startedAt")],
    ["finishedAt", time("finishedAt")],
  ] as const) {
    if (value !== undefined) message[field] = value;
  }
  if (get("permanent") === true) message.permanent = true;
  const health = get("health");
  if (health === "passing" || health === "failing") message.health = health;
  if (get("leaseExpired") === true) message.leaseExpired = true;
  for (const field of ["logsStdout", "logsStderr"]) {
    const value = get(field);
    // The end of a log says most about the failure.
    if (typeof value === "string") message[field] = clean(value.slice(-maxLogLength), maxLogLength);
  }
  return { kind: "status", robotId, message: message as unknown as StatusMessage };
}

/** Milliseconds since the epoch. NaN if it is not a time. */
const readTime = (value: unknown): number => (typeof value === "string" && value.length <= 40 ? Date.parse(value) : Number.NaN);

const minTimeMs = Date.parse("0000-01-01T00:00:00Z");
const maxTimeMs = Date.parse("9999-12-31T23:59:59.999Z");

/** Whether RFC 3339, the format of times in the API, cannot express a time. */
const isOutOfRange = (ms: number): boolean => ms < minTimeMs || ms > maxTimeMs;

/** Applies {@link clean} to every string of a JSON value. */
function cleanTexts(value: unknown): unknown {
  return JSON.parse(JSON.stringify(value), (_, each: unknown) =>
    typeof each === "string" ? clean(each, maxMessageLength) : each,
  );
}
