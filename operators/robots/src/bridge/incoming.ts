import { isJsonObject, type JsonObject, setOwn } from "@keelson/api-machinery";
import { Check, Clean } from "typebox/value";
import { DeviceInfo } from "../api/device-info.ts";
import { type RegisterMessage, robotIdPattern, type StatusMessage, taskUidPattern, topics } from "../protocol/messages.ts";

/** The largest payload that is read. */
export const maxPayloadBytes = 256 * 1024;

const maxLabels = 64;
const maxHeldTasks = 4096;
const maxMessageLength = 4096;
const maxLogLength = 4096;
const maxTokenLength = 1024;

const states = ["running", "completed", "failed", "deleted"] as const;

/** A message of an agent, checked. */
export type Incoming =
  | { readonly kind: "register" | "heartbeat"; readonly message: RegisterMessage }
  | { readonly kind: "status"; readonly robotId: string; readonly message: StatusMessage }
  | { readonly kind: "online"; readonly robotId: string; readonly online: boolean };

/**
 * Reads a message as it came. Everything in it is somebody else's: text is cut and rid of control characters, what is not of
 * its type is refused.
 *
 * **Errors**: answers `{refused}` with the reason; never throws.
 */
export function readIncoming(topic: string, payload: Uint8Array): Incoming | { readonly refused: string } {
  const place = placeOf(topic);
  if (place === undefined) return { refused: "no topic of an agent" };
  if (payload.length > maxPayloadBytes)
    return { refused: `payload has ${payload.length} bytes; at most ${maxPayloadBytes} are read` };
  let body: unknown;
  try {
    body = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(payload));
  } catch {
    return { refused: "payload is no JSON" };
  }
  if (!isJsonObject(body)) return { refused: "payload is no JSON object" };
  const get = (field: string): unknown => (Object.hasOwn(body, field) ? body[field] : undefined);
  switch (place.kind) {
    case "online": {
      const online = get("online");
      return typeof online === "boolean" ? { ...place, online } : { refused: "online has to be true or false" };
    }
    case "status":
      return readStatus(place.robotId, place.uid, get);
    default:
      return readRegister(place.kind, get);
  }
}

type Place =
  | { readonly kind: "register" | "heartbeat" }
  | { readonly kind: "online"; readonly robotId: string }
  | { readonly kind: "status"; readonly robotId: string; readonly uid: string };

function placeOf(topic: string): Place | undefined {
  if (topic === topics.register) return { kind: "register" };
  if (topic === topics.heartbeat) return { kind: "heartbeat" };
  const [root, robots, robotId, ...rest] = topic.split("/");
  if (root !== "k8s4r" || robots !== "robots" || robotId === undefined || !robotIdPattern.test(robotId)) return undefined;
  if (rest.length === 1 && rest[0] === "online") return { kind: "online", robotId };
  const [tasks, uid, leaf] = rest;
  if (rest.length === 3 && tasks === "tasks" && uid !== undefined && taskUidPattern.test(uid) && leaf === "status") {
    return { kind: "status", robotId, uid };
  }
  return undefined;
}

function readRegister(
  kind: "register" | "heartbeat",
  get: (field: string) => unknown,
): Incoming | { readonly refused: string } {
  const robotId = get("robotId");
  if (typeof robotId !== "string" || !robotIdPattern.test(robotId)) {
    return { refused: "robotId has to be a DNS label: up to 63 of a-z, 0-9 and -, not at its ends" };
  }
  const token = get("token") ?? "";
  if (typeof token !== "string" || token.length > maxTokenLength)
    return { refused: `token has to be a text of up to ${maxTokenLength} characters` };
  const deviceInfo = readDeviceInfo(get("deviceInfo"));
  const labels = readLabels(get("labels"));
  if (labels === null) return { refused: `labels have to be texts, at most ${maxLabels}` };
  const bootId = get("bootId");
  const tasks = readHeldTasks(get("tasks"));
  if (tasks === null) return { refused: "tasks have to be a list of {taskUid, attempt}" };
  return {
    kind,
    message: {
      robotId,
      token,
      ...(deviceInfo === undefined ? {} : { deviceInfo }),
      ...(labels === undefined ? {} : { labels }),
      ...(typeof bootId === "string" && bootId.length <= 128 ? { bootId: clean(bootId, 128) } : {}),
      ...(tasks === undefined ? {} : { tasks }),
    },
  };
}

/** Undefined also where it is not of its form: a robot whose measurements are odd is still a robot. */
function readDeviceInfo(value: unknown): DeviceInfo | undefined {
  if (!isJsonObject(value) || !Check(DeviceInfo, value)) return undefined;
  return Clean(DeviceInfo, value) as DeviceInfo;
}

function readLabels(value: unknown): Record<string, string> | undefined | null {
  if (value === undefined || value === null) return undefined;
  if (!isJsonObject(value)) return null;
  const entries = Object.entries(value);
  if (entries.length > maxLabels) return null;
  const labels: Record<string, string> = {};
  for (const [key, text] of entries) {
    if (typeof text !== "string" || text.length > 256 || key.length > 256) return null;
    setOwn(labels, key, text);
  }
  return labels;
}

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

function readStatus(robotId: string, uid: string, get: (field: string) => unknown): Incoming | { readonly refused: string } {
  if (get("taskUid") !== uid) return { refused: "taskUid is not that of the topic" };
  if (get("robotName") !== robotId) return { refused: "robotName is not the robot of the topic" };
  const state = states.find((each) => each === get("state"));
  if (state === undefined) return { refused: `state has to be one of ${states.join(", ")}` };
  const [attempt, seq] = [get("attempt"), get("seq")];
  if (attempt !== undefined && !isCount(attempt)) return { refused: "attempt has to be a whole number" };
  if (seq !== undefined && !isCount(seq)) return { refused: "seq has to be a whole number" };
  const text = (field: string, length: number): string => {
    const value = get(field);
    return typeof value === "string" ? clean(value, length) : "";
  };
  const time = (field: string): string | undefined => {
    const value = get(field);
    const ms = typeof value === "string" && value.length <= 40 ? Date.parse(value) : Number.NaN;
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
    ["startedAt", time("startedAt")],
    ["finishedAt", time("finishedAt")],
  ] as const) {
    if (value !== undefined) message[field] = value;
  }
  for (const field of ["logsStdout", "logsStderr"]) {
    const value = get(field);
    // Of a log the end tells most.
    if (typeof value === "string") message[field] = clean(value.slice(-maxLogLength), maxLogLength);
  }
  return { kind: "status", robotId, message: message as unknown as StatusMessage };
}

function isCount(value: unknown): value is number {
  return typeof value === "number" && Number.isInteger(value) && value >= 0 && value < 2 ** 31;
}

/** Without control characters other than line ends and tabs, which could steer a terminal. */
function clean(text: string, length: number): string {
  return text
    .slice(0, length)
    .replace(/\p{Cc}/gu, (character) => (character === "\n" || character === "\t" ? character : "\ufffd"));
}
