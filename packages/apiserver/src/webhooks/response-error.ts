import { parseJsonObject } from "@keelson/api-machinery";

/** Longer bodies are cut off in messages. */
const maxTextLength = 2048;

const messages: Readonly<Record<number, string>> = {
  400: "the server rejected our request for an unknown reason",
  401: "the server has asked for the client to provide credentials",
  404: "the server could not find the requested resource",
  405: "the server does not allow this method on the requested resource",
  409: "the server reported a conflict",
  422: "the server rejected our request due to an error in our request",
  429: "the server has received too many requests and has asked us to try again later",
  503: "the server is currently unable to handle the request",
  504: "the server was unable to return a response in the time allotted, but may still be processing the request",
};

/** The message of a response that is not successful, as client-go writes it. Redirects are not followed. */
export function responseErrorText(status: number, contentType: string, body: string): string {
  const text = body.slice(0, maxTextLength).trim();
  const sent = statusMessage(contentType, body);
  if (sent !== undefined) return sent;
  if (status === 403) return text === "" ? "unknown" : text;
  const known = Object.hasOwn(messages, status) ? messages[status] : undefined;
  if (known !== undefined) return known;
  const shown = contentType.startsWith("text/") && text !== "" ? text : "unknown";
  return status >= 500
    ? `an error on the server (${JSON.stringify(shown)}) has prevented the request from succeeding`
    : `the server responded with the status code ${status} but did not return more information`;
}

/** The message of a Status in the body. */
function statusMessage(contentType: string, body: string): string | undefined {
  if (!contentType.startsWith("application/json")) return undefined;
  const { kind, message } = parseJsonObject(body) ?? {};
  return kind === "Status" && typeof message === "string" ? message : undefined;
}
