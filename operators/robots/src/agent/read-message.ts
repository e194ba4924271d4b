import { isJsonObject, type JsonObject, setOwn } from "@keelson/api-machinery";
import { type LeaseAnswer, type LeasedTask, type SignalMessage, taskUidPattern, topics } from "../protocol/messages.ts";
import { type ExecMessage, readExecMessage } from "../protocol/exec-messages.ts";
import type { AgentPolicy } from "./policy/agent-policy.ts";
import { type Dispatch, readDispatch } from "./tasks/task-order.ts";

/** A message from the server. */
export type ServerMessage =
  | { readonly kind: "dispatch"; readonly dispatch: Dispatch }
  | {
      readonly kind: "response";
      readonly isRegistered: boolean;
      readonly answer: string;
      readonly isCredentialBound: boolean;
      /** Empty if there is none. */
      readonly warning: string;
      /** The robot's labels, if the message has them. */
      readonly labels?: Readonly<Record<string, string>>;
    }
  | { readonly kind: "lease-answer"; readonly leases: LeaseAnswer }
  | { readonly kind: "exec"; readonly exec: ExecMessage }
  | { readonly kind: "signal"; readonly signal: SignalMessage }
  | { readonly kind: "ack"; readonly uid: string; readonly attempt: number; readonly seq: number }
  /** Not a valid message. */
  | { readonly kind: "invalid"; readonly reason: string };

/** Maximum length of the server's answer in the log. */
const maxAnswerLength = 300;

/** Parses a message that was received on `topic`. Never throws. */
export function readMessage(topic: string, payload: Uint8Array, policy: AgentPolicy): ServerMessage {
  const { robotId } = policy;
  if (topic === topics.dispatch(robotId)) {
    const dispatch = readDispatch(payload, policy);
    if (typeof dispatch === "string") return { kind: "invalid", reason: `dispatch: ${dispatch}` };
    return { kind: "dispatch", dispatch };
  }
  let message: unknown;
  try {
    message = JSON.parse(Buffer.from(payload).toString("utf8"));
  } catch {
    message = undefined;
  }
  if (!isJsonObject(message)) return { kind: "invalid", reason: "payload must be a JSON object" };
  if (topic === topics.response(robotId)) {
    const text = (value: unknown): string => (typeof value === "string" ? value.slice(0, maxAnswerLength) : "");
    return {
      kind: "response",
      isRegistered: message.success === true,
      answer: text(message.message),
      isCredentialBound: message.isCredentialBound === true,
      warning: text(message.warning),
      ...(isJsonObject(message.labels) ? { labels: textsOf(message.labels) } : {}),
    };
  }
  if (topic === topics.leaseAnswer(robotId)) {
    const { nonce } = message;
    const [granted, refused] = [leasedTasks(message.granted), leasedTasks(message.refused)];
    if (typeof nonce !== "string" || granted === undefined || refused === undefined) {
      return { kind: "invalid", reason: "not a valid answer about leases" };
    }
    return { kind: "lease-answer", leases: { nonce, granted, refused } };
  }
  if (topic === topics.exec(robotId)) {
    const exec = readExecMessage(message);
    return exec === undefined ? { kind: "invalid", reason: "not a valid message about a command" } : { kind: "exec", exec };
  }
  if (topic === topics.signals(robotId)) {
    const signal = readSignal(message);
    return signal === undefined ? { kind: "invalid", reason: "not a valid signal" } : { kind: "signal", signal };
  }
  const { taskUid: uid, attempt, seq } = message;
  if (typeof uid !== "string" || typeof attempt !== "number" || typeof seq !== "number" || topic !== topics.ack(robotId, uid)) {
    return { kind: "invalid", reason: "not a valid acknowledgement" };
  }
  return { kind: "ack", uid, attempt, seq };
}

function readSignal({ id, taskUid, attempt, signal, issuedAt }: JsonObject): SignalMessage | undefined {
  if (typeof id !== "string" || !taskUidPattern.test(id)) return undefined;
  if (typeof taskUid !== "string" || !taskUidPattern.test(taskUid) || typeof attempt !== "number") return undefined;
  if (typeof signal !== "string" || typeof issuedAt !== "number") return undefined;
  return { id, taskUid, attempt, signal, issuedAt };
}

function textsOf(object: JsonObject): Readonly<Record<string, string>> {
  const texts: Record<string, string> = {};
  for (const [key, value] of Object.entries(object)) if (typeof value === "string") setOwn(texts, key, value);
  return texts;
}

function leasedTasks(value: unknown): readonly LeasedTask[] | undefined {
  if (!Array.isArray(value)) return undefined;
  const tasks: LeasedTask[] = [];
  for (const each of value) {
    if (!isJsonObject(each)) return undefined;
    const { taskUid, attempt } = each;
    if (typeof taskUid !== "string" || !taskUidPattern.test(taskUid) || typeof attempt !== "number") return undefined;
    tasks.push({ taskUid, attempt });
  }
  return tasks;
}
