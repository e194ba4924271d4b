import type { IncomingMessage } from "node:http";
import { Agent, type RequestOptions, request as httpsRequest } from "node:https";
import type { KeyPair } from "@keelson/api-machinery/certificates";
import type { Clock } from "@keelson/api-machinery/time";
import { networkErrorText } from "./network-error.ts";
import { responseErrorText } from "./response-error.ts";
import type { ResolveService } from "./service-resolver.ts";
import { WebhookError } from "./webhook-error.ts";
import { printedUrl, serviceName, type WebhookTarget } from "./webhook-target.ts";

/** What {@link WebhookClient} takes. */
export interface WebhookClientOptions {
  readonly resolve: ResolveService;
  readonly clock: Clock;
  /** The client certificate to present, if there is one. It is renewed while the server runs. */
  readonly certificate?: () => KeyPair | undefined;
}

/** A call of a webhook. */
export interface WebhookCallOptions {
  /** Also sent to the webhook, in whole seconds. */
  readonly timeoutMs: number;
  /** Default 16 MiB. */
  readonly maxResponseBytes?: number;
  /** Cancels the call. */
  readonly signal?: AbortSignal | undefined;
}

const defaultMaxResponseBytes = 16 * 1024 * 1024;

/**
 * Calls webhooks over HTTPS and keeps their connections. Certificates are always verified, redirects are not followed, and responses are
 * limited in time and size.
 */
export class WebhookClient {
  readonly #options: WebhookClientOptions;
  readonly #agent = new Agent({ keepAlive: true, maxFreeSockets: 64, timeout: 90_000 });

  constructor(options: WebhookClientOptions) {
    this.#options = options;
  }

  /** Posts a review and returns the parsed response. Rejects with a `WebhookError`. */
  async post(target: WebhookTarget, review: unknown, options: WebhookCallOptions): Promise<unknown> {
    const body = Buffer.from(JSON.stringify(review));
    const { status, contentType, text } = await this.#send(target, body, options, true);
    if (status < 200 || status > 206) {
      throw new WebhookError("InvalidResponse", responseErrorText(status, contentType, text), { statusCode: status });
    }
    try {
      return JSON.parse(text) as unknown;
    } catch (error) {
      const why = error instanceof Error ? error.message : String(error);
      throw new WebhookError("InvalidResponse", `couldn't get version/kind; json parse error: ${why}`, { cause: error });
    }
  }

  /** Closes all connections. Calls in progress fail. */
  close(): void {
    this.#agent.destroy();
  }

  async #send(
    target: WebhookTarget,
    body: Buffer,
    options: WebhookCallOptions,
    mayRetry: boolean,
  ): Promise<{ status: number; contentType: string; text: string }> {
    const printed = `Post ${JSON.stringify(printedUrl(target, options.timeoutMs))}`;
    const controller = new AbortController();
    const call = { isReused: false };
    const timer = this.#options.clock.setTimer(options.timeoutMs, () =>
      controller.abort(new WebhookError("TimedOut", `${printed}: context deadline exceeded`, { statusCode: 504 })),
    );
    const onAbort = (): void => controller.abort(new WebhookError("Aborted", `${printed}: context canceled`));
    if (options.signal?.aborted) onAbort();
    else options.signal?.addEventListener("abort", onAbort, { once: true });
    try {
      const response = await this.#request(target, body, options.timeoutMs, controller.signal, call);
      const text = await readText(response, options.maxResponseBytes ?? defaultMaxResponseBytes);
      return { status: response.statusCode ?? 0, contentType: response.headers["content-type"] ?? "", text };
    } catch (error) {
      if (controller.signal.aborted) throw controller.signal.reason;
      // The webhook closed an idle connection while the request was sent.
      if (call.isReused && mayRetry && isReset(error)) return await this.#send(target, body, options, false);
      if (error instanceof WebhookError && error.code === "InvalidResponse") throw error;
      const why = error instanceof WebhookError ? error.message : networkErrorText(error);
      throw new WebhookError("Unreachable", `${printed}: ${why}`, { cause: error });
    } finally {
      timer.cancel();
      options.signal?.removeEventListener("abort", onAbort);
    }
  }

  #request(
    target: WebhookTarget,
    body: Buffer,
    timeoutMs: number,
    signal: AbortSignal,
    call: { isReused: boolean },
  ): Promise<IncomingMessage> {
    const options = this.#requestOptions(target, body, timeoutMs);
    return new Promise((resolve, reject) => {
      const request = httpsRequest({ ...options, signal }, resolve);
      // A connection may fail more than once, even after its response has begun.
      request.on("error", (error) => {
        call.isReused = request.reusedSocket;
        reject(error);
      });
      request.end(body);
    });
  }

  #requestOptions({ url, service, authorities }: WebhookTarget, body: Buffer, timeoutMs: number): RequestOptions {
    const hostname = url.hostname.replaceAll(/[[\]]/g, "");
    const certificate = this.#options.certificate?.();
    const endpoint =
      service === undefined
        ? { host: hostname, port: url.port === "" ? 443 : Number(url.port) }
        : this.#options.resolve(service);
    return {
      agent: this.#agent,
      method: "POST",
      ...endpoint,
      path: `${url.pathname}?timeout=${Math.ceil(timeoutMs / 1000)}s`,
      headers: {
        host: service === undefined ? url.host : `${serviceName(service)}:${service.port}`,
        accept: "application/json, */*",
        "content-type": "application/json",
        "content-length": body.length,
        "user-agent": "kube-apiserver-admission",
      },
      ...(service === undefined ? {} : { servername: serviceName(service) }),
      ...(authorities === undefined ? {} : { ca: authorities }),
      ...(certificate === undefined ? {} : { cert: certificate.certificate, key: certificate.key }),
    };
  }
}

async function readText(response: IncomingMessage, maxBytes: number): Promise<string> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of response as AsyncIterable<Buffer>) {
    size += chunk.length;
    if (size > maxBytes) {
      throw new WebhookError("InvalidResponse", `the response is larger than the limit of ${maxBytes} bytes`);
    }
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString();
}

function isReset(error: unknown): boolean {
  return error instanceof Error && (error as NodeJS.ErrnoException).code === "ECONNRESET";
}
