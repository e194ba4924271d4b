import { once } from "node:events";
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Server } from "node:https";
import type { AddressInfo } from "node:net";
import { type SecureContextOptions, TLSSocket } from "node:tls";
import type { JsonObject } from "@keelson/api-machinery";
import type { KeyPair } from "@keelson/api-machinery/certificates";
import type { Clock } from "@keelson/api-machinery/time";
import type { WebhookMetrics } from "../metrics/webhook-metrics.ts";
import { answerAdmission, answerConversion, type ReviewContext, ReviewError } from "./review.ts";
import { isAcceptedKey, splitPath } from "./path-key.ts";
import type { ConversionDefinition } from "./define-conversion.ts";
import type { WebhookDefinition } from "./webhook-definition.ts";

/** What {@link WebhookServer} takes. */
export interface WebhookServerOptions extends Omit<ReviewContext, "onPanic"> {
  readonly webhooks: readonly WebhookDefinition[];
  readonly conversions: readonly ConversionDefinition[];
  readonly clock: Clock;
  readonly metrics: (path: string) => WebhookMetrics;
  /** PEM of the authority of clients. Undefined: they need no certificate. */
  readonly clientAuthority: string | undefined;
}

/** The path of conversion webhooks. */
export const conversionPath = "/convert";

/** Maximum size of a request, as in controller-runtime. */
const maxBodyBytes = 7 * 1024 * 1024;
const requestTimeoutMs = 60_000;

/** Serves webhooks over TLS, with `/healthz` and `/readyz` for probes. */
export class WebhookServer {
  readonly #options: WebhookServerOptions;
  readonly #webhooks: ReadonlyMap<string, WebhookDefinition>;
  readonly #conversions: ReadonlyMap<string, ConversionDefinition>;
  #server: Server | undefined;
  /** Keys of the paths of reviews. Undefined: they have none. */
  #pathKeys: readonly string[] | undefined;

  /** Throws a `TypeError` if two webhooks have the same path, or two conversions the same kind. */
  constructor(options: WebhookServerOptions) {
    this.#options = options;
    this.#webhooks = byKey(options.webhooks, ({ path }) => path, "webhook");
    this.#conversions = byKey(options.conversions, ({ kind, group }) => `${kind}.${group}`, "conversion");
  }

  /** Listens; port 0 picks a free one. Resolves to the port. */
  async listen(port: number, host: string, certificate: KeyPair): Promise<number> {
    const { createServer } = await import("node:https");
    const server = createServer(
      {
        ...this.#secureContext(certificate),
        requestTimeout: requestTimeoutMs,
        // Probes have no certificate.
        ...(this.#options.clientAuthority === undefined ? {} : { requestCert: true, rejectUnauthorized: false }),
      },
      (request, response) => void this.#serve(request, response),
    );
    this.#server = server;
    server.listen(port, host);
    await once(server, "listening");
    return (server.address() as AddressInfo).port;
  }

  /** Uses another certificate for new connections. */
  setCertificate(certificate: KeyPair): void {
    this.#server?.setSecureContext(this.#secureContext(certificate));
  }

  /** Requires one of these keys in the paths of reviews, or one that was accepted before: the API server may not know the new ones yet. */
  acceptPathKeys(keys: readonly string[]): void {
    this.#pathKeys = [...new Set([...keys, ...(this.#pathKeys ?? [])])].slice(0, 4);
  }

  /** The path of a webhook. Undefined if the request does not have the key. */
  #pathOf(path: string): string | undefined {
    if (this.#pathKeys === undefined) return path;
    const split = splitPath(path);
    return split !== undefined && isAcceptedKey(split.key, this.#pathKeys) ? split.rest : undefined;
  }

  #secureContext({ certificate, key }: KeyPair): SecureContextOptions {
    const { clientAuthority: ca } = this.#options;
    return { cert: certificate, key, minVersion: "TLSv1.2", ...(ca === undefined ? {} : { ca }) };
  }

  /** Whether a request comes from a client that may send reviews. */
  #isAuthenticated({ socket }: IncomingMessage): boolean {
    return this.#options.clientAuthority === undefined || (socket instanceof TLSSocket && socket.authorized);
  }

  /** Stops listening. Requests in progress are answered first. */
  async stop(): Promise<void> {
    const server = this.#server;
    this.#server = undefined;
    if (server === undefined) return;
    const closed = new Promise<void>((resolve) => server.close(() => resolve()));
    server.closeIdleConnections();
    await closed;
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const requested = (request.url ?? "/").split("?", 1)[0] ?? "/";
    const path = this.#pathOf(requested);
    try {
      if (requested === "/healthz" || requested === "/readyz") send(response, 200, "ok");
      else if (path === undefined) send(response, 401, "the path under which the webhook is registered is required");
      else if (!this.#isAuthenticated(request)) send(response, 401, "a client certificate of the API server is required");
      else if (!this.#webhooks.has(path) && (path !== conversionPath || this.#conversions.size === 0)) {
        send(response, 404, "not found");
      } else if (request.method !== "POST") send(response, 405, "only POST is allowed");
      else await this.#review(path, request, response);
    } catch (error) {
      this.#options.log.error({ err: error, path }, "webhook request failed");
      if (response.headersSent) response.destroy();
      else send(response, 500, "internal error");
    }
  }

  async #review(path: string, request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { clock } = this.#options;
    const metrics = this.#options.metrics(path);
    const started = clock.monotonic();
    metrics.inFlight(1);
    let code = 500;
    try {
      const body = await readBody(request);
      if (body === undefined) {
        code = 413;
        send(response, code, `the body must be at most ${maxBodyBytes} bytes`);
        return;
      }
      const answer = await this.#answer(path, body, metrics);
      code = 200;
      response.writeHead(code, { "content-type": "application/json" });
      response.end(JSON.stringify(answer));
    } catch (error) {
      if (!(error instanceof ReviewError)) throw error;
      code = 400;
      send(response, code, error.message);
    } finally {
      metrics.inFlight(-1);
      metrics.served(code, clock.monotonic() - started);
    }
  }

  #answer(path: string, body: string, metrics: WebhookMetrics): JsonObject | Promise<JsonObject> {
    let review: unknown;
    try {
      review = JSON.parse(body);
    } catch (error) {
      throw new ReviewError("the body must be JSON", { cause: error });
    }
    const context = { ...this.#options, onPanic: () => metrics.panicked() };
    const webhook = this.#webhooks.get(path);
    return webhook === undefined
      ? answerConversion(this.#conversions, review, context)
      : answerAdmission(webhook, review, context);
  }
}

function byKey<T>(items: readonly T[], keyOf: (item: T) => string, what: string): ReadonlyMap<string, T> {
  const result = new Map<string, T>();
  for (const item of items) {
    const key = keyOf(item);
    if (result.has(key)) throw new TypeError(`${what} ${key} is defined twice`);
    result.set(key, item);
  }
  return result;
}

/** Undefined if the body is too large. */
async function readBody(request: IncomingMessage): Promise<string | undefined> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    size += chunk.length;
    if (size > maxBodyBytes) return undefined;
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString();
}

function send(response: ServerResponse, status: number, text: string): void {
  response.writeHead(status, {
    "content-type": "text/plain; charset=utf-8",
    "x-content-type-options": "nosniff",
    // The rest of the body is not read.
    ...(status === 413 || status === 401 ? { connection: "close" } : {}),
  });
  response.end(`${text}\n`);
}
