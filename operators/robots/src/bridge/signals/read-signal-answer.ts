import { type SignalAnswer, taskUidPattern } from "../../protocol/messages.ts";
import { clean, type GetField } from "../incoming-fields.ts";

const maxMessageLength = 500;

/** Parses an untrusted answer. Returns why it is not valid. */
export function readSignalAnswer(get: GetField): SignalAnswer | string {
  const [id, isDelivered, message = ""] = [get("id"), get("isDelivered"), get("message")];
  if (typeof id !== "string" || !taskUidPattern.test(id)) return "id must be the uid of a TaskSignal";
  if (typeof isDelivered !== "boolean") return "isDelivered must be true or false";
  return { id, isDelivered, message: typeof message === "string" ? clean(message, maxMessageLength) : "" };
}
