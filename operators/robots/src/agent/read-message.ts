import { isJsonObject } from "@keelson/api-machinery";
import { topics } from "../protocol/messages.ts";
import { type AgentPolicy, type Dispatch, readDispatch } from "./task-order.ts";

/** What an agent is told. */
export type ToldMessage =
  | { readonly kind: "dispatch"; readonly dispatch: Dispatch }
  | { readonly kind: "response"; readonly isRegistered: boolean; readonly answer: string }
  | { readonly kind: "ack"; readonly uid: string; readonly attempt: number; readonly seq: number }
  /** Nothing that an agent acts on, and why. */
  | { readonly kind: "dropped"; readonly reason: string };

/** Characters of the server's answer that are logged. */
const answerLength = 300;

/** Reads a message that came on `topic`. Never throws: whatever is no message is dropped, with the reason. */
export function readMessage(topic: string, payload: Uint8Array, policy: AgentPolicy): ToldMessage {
  const { robotId } = policy;
  if (topic === topics.dispatch(robotId)) {
    const dispatch = readDispatch(payload, policy);
    if (typeof dispatch === "string") return { kind: "dropped", reason: `a dispatch: ${dispatch}` };
    return { kind: "dispatch", dispatch };
  }
  let message: unknown;
  try {
    message = JSON.parse(Buffer.from(payload).toString("utf8"));
  } catch {
    message = undefined;
  }
  if (!isJsonObject(message)) return { kind: "dropped", reason: "it is no JSON object" };
  if (topic === topics.response(robotId)) {
    const answer = typeof message.message === "string" ? message.message.slice(0, answerLength) : "";
    return { kind: "response", isRegistered: message.success === true, answer };
  }
  const { taskUid: uid, attempt, seq } = message;
  if (typeof uid !== "string" || typeof attempt !== "number" || typeof seq !== "number" || topic !== topics.ack(robotId, uid)) {
    return { kind: "dropped", reason: "it acknowledges nothing" };
  }
  return { kind: "ack", uid, attempt, seq };
}
