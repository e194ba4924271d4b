import { isJsonObject } from "@keelson/api-machinery";
import type { Dispatcher } from "undici";

/** What a webhook is asked. */
export interface WebhookQuestion {
  readonly url: string;
  readonly function: string;
  readonly params: Readonly<Record<string, unknown>> | undefined;
  /** The object that the check is about; null where there is none. */
  readonly state: unknown;
  /** How long the whole answer may take. */
  readonly timeoutMs: number;
}

/** What came of it. `error`: the webhook could not be asked, so it is not known whether the check holds. */
export type WebhookAnswer =
  | { readonly kind: "answer"; readonly passed: boolean; readonly actual?: string; readonly message?: string }
  | { readonly kind: "error"; readonly message: string };

/** The longest answer that is read. */
const maxAnswerBytes = 1 << 20;

/** Asks a webhook once. Never throws; redirects are not followed, so that an answer comes from the host that the test names. */
export async function callWebhook(
  question: WebhookQuestion,
  dispatcher: Dispatcher,
  signal: AbortSignal,
): Promise<WebhookAnswer> {
  const { url, timeoutMs } = question;
  const limit = AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)]);
  try {
    const { origin, pathname, search } = new URL(url);
    const { statusCode, body } = await dispatcher.request({
      origin,
      path: `${pathname}${search}`,
      method: "POST",
      headers: { "content-type": "application/json", accept: "application/json", "user-agent": "keelson-testplane" },
      body: JSON.stringify({
        function: question.function,
        ...(question.params === undefined ? {} : { params: question.params }),
        state: question.state,
      }),
      signal: limit,
    });
    // Letting go of a body makes it emit an error that nobody waits for; without a listener it would end the process.
    body.on("error", () => {});
    if (statusCode !== 200) {
      body.destroy();
      return {
        kind: "error",
        message: `the webhook answered HTTP ${statusCode}${statusCode >= 300 && statusCode < 400 ? "; redirects are not followed" : ""}`,
      };
    }
    const chunks: Buffer[] = [];
    let length = 0;
    for await (const chunk of body as AsyncIterable<Buffer>) {
      length += chunk.length;
      if (length > maxAnswerBytes) {
        body.destroy();
        return { kind: "error", message: `the webhook's answer is longer than ${maxAnswerBytes} bytes` };
      }
      chunks.push(chunk);
    }
    return answerOf(Buffer.concat(chunks).toString("utf8"));
  } catch (error) {
    if (limit.aborted && !signal.aborted)
      return { kind: "error", message: `the webhook did not answer within ${timeoutMs / 1000} s` };
    return { kind: "error", message: `the webhook could not be asked: ${reasonOf(error)}` };
  }
}

/** Reads `{passed, actual?, message?}`. */
export function answerOf(text: string): WebhookAnswer {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return { kind: "error", message: "the webhook's answer is no JSON" };
  }
  if (!isJsonObject(value) || typeof value["passed"] !== "boolean") {
    return { kind: "error", message: "the webhook's answer has no `passed` that is true or false" };
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

function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const code: unknown = Reflect.get(error, "code");
  return error.message || (typeof code === "string" ? code : error.name);
}
