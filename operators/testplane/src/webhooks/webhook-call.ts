import { isJsonObject } from "@keelson/api-machinery";
import type { Dispatcher } from "undici";

/** Request to a webhook. */
export interface WebhookRequest {
  readonly url: string;
  readonly function: string;
  readonly params: Readonly<Record<string, unknown>> | undefined;
  /** The object to check; null if it does not exist. */
  readonly state: unknown;
  /** Timeout for the whole response. */
  readonly timeoutMs: number;
}

/** Result of a webhook call. `error`: the call failed, so it is not known whether the check holds. */
export type WebhookAnswer =
  | { readonly kind: "answer"; readonly passed: boolean; readonly actual?: string; readonly message?: string }
  | { readonly kind: "error"; readonly message: string };

/** Maximum size of a response body. */
const maxAnswerBytes = 1 << 20;

/** Calls a webhook once. Never rejects. Redirects are not followed: only the host named in the test may respond. */
export async function callWebhook(
  request: WebhookRequest,
  dispatcher: Dispatcher,
  signal: AbortSignal,
): Promise<WebhookAnswer> {
  const { url, timeoutMs } = request;
  const limit = AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)]);
  try {
    const { origin, pathname, search } = new URL(url);
    const { statusCode, body } = await dispatcher.request({
      origin,
      path: `${pathname}${search}`,
      method: "POST",
      headers: { "content-type": "application/json", accept: "application/json", "user-agent": "keelson-testplane" },
      body: JSON.stringify({
        function: request.function,
        ...(request.params === undefined ? {} : { params: request.params }),
        state: request.state,
      }),
      signal: limit,
    });
    // Destroying a body emits an error, which would crash the process without a listener.
    body.on("error", () => {});
    if (statusCode !== 200) {
      body.destroy();
      return {
        kind: "error",
        message: `the webhook responded with HTTP ${statusCode}${statusCode >= 300 && statusCode < 400 ? "; redirects are not followed" : ""}`,
      };
    }
    const chunks: Buffer[] = [];
    let length = 0;
    for await (const chunk of body as AsyncIterable<Buffer>) {
      length += chunk.length;
      if (length > maxAnswerBytes) {
        body.destroy();
        return { kind: "error", message: `the webhook response exceeds ${maxAnswerBytes} bytes` };
      }
      chunks.push(chunk);
    }
    return parseAnswer(Buffer.concat(chunks).toString("utf8"));
  } catch (error) {
    if (limit.aborted && !signal.aborted)
      return { kind: "error", message: `the webhook did not respond within ${timeoutMs / 1000} s` };
    return { kind: "error", message: `the webhook call failed: ${errorMessage(error)}` };
  }
}

/** Parses `{passed, actual?, message?}`. */
function parseAnswer(text: string): WebhookAnswer {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return { kind: "error", message: "the webhook response is not valid JSON" };
  }
  if (!isJsonObject(value) || typeof value["passed"] !== "boolean") {
    return { kind: "error", message: "the webhook response must have a boolean `passed`" };
  }
  const { passed, actual, message } = value;
  return {
    kind: "answer",
    passed: passed === true,
    ...(actual === undefined || actual === null
      ? {}
      : { actual: typeof actual === "string" ? actual : JSON.stringify(actual) }),
    ...(typeof message === "string" ? { message } : {}),
  };
}

function errorMessage(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const code: unknown = Reflect.get(error, "code");
  return error.message || (typeof code === "string" ? code : error.name);
}
