import type { Duplex } from "node:stream";
import type { DeepReadonly } from "@keelson/api-machinery";
import { type Clock, parseDuration, sleep } from "@keelson/api-machinery/time";
import { Client } from "undici";
import type { HttpAction } from "../api/tool-actions.ts";
import { OutputTail } from "./output-tail.ts";
import { ToolError } from "./tool-error.ts";
import type { ToolResult } from "./tool-report.ts";

/** Delay before a GET or HEAD is repeated. What a server responds cannot be watched. */
const repeatMs = 1_000;

/** Maximum size of a response that is read. */
const maxResponseBytes = 16 * 1024 * 1024;

/** An HTTP request and what counts as success. */
export interface HttpExchange {
  readonly request: DeepReadonly<HttpAction>;
  readonly giveUpAtMs: number;
  readonly acceptsAnyStatus: boolean;
  readonly clock: Clock;
  readonly signal: AbortSignal;
  /** Opens the connection. Default: to the host of the URL. */
  readonly connect?: (signal: AbortSignal) => Promise<Duplex>;
}

/**
 * Sends a request. GET and HEAD are repeated until the status is as expected; other methods are sent once. Resolves to the last response.
 *
 * **Errors**: a {@link ToolError} if there is no response.
 */
export async function sendHttp(exchange: HttpExchange): Promise<ToolResult> {
  const { request, giveUpAtMs, clock, signal } = exchange;
  const { method = "GET" } = request;
  const isRepeatable = method === "GET" || method === "HEAD";
  for (let attempts = 1; ; attempts++) {
    // After the request, which itself takes time.
    const isLast = (): boolean => !isRepeatable || clock.now() + repeatMs >= giveUpAtMs;
    try {
      const result = await sendOnce(exchange);
      if (isExpected(exchange, result.statusCode ?? 0)) return result;
      if (isLast()) return { ...result, exitCode: 1, stderr: unexpected(exchange, result.statusCode ?? 0) };
    } catch (error) {
      signal.throwIfAborted();
      if (error instanceof ToolError) throw error;
      const often = attempts === 1 ? "" : ` (${attempts} attempts)`;
      if (isLast()) throw new ToolError("NoResponse", `${describe(request)}: ${causeOf(error)}${often}`, { cause: error });
    }
    await sleep(clock, repeatMs, signal);
  }
}

const describe = ({ method = "GET", url }: DeepReadonly<HttpAction>): string => `${method} ${url}`;

function isExpected({ request, acceptsAnyStatus }: HttpExchange, status: number): boolean {
  if (request.expectedStatusCodes !== undefined) return request.expectedStatusCodes.includes(status);
  return acceptsAnyStatus || (status >= 200 && status < 400);
}

function unexpected({ request }: HttpExchange, status: number): string {
  const expected = request.expectedStatusCodes?.join(" or ") ?? "200 to 399";
  return `${describe(request)} responded with HTTP ${status}, expected ${expected}`;
}

async function sendOnce({ request, signal, connect }: HttpExchange): Promise<ToolResult> {
  const { method = "GET", body, headers = [], requestTimeout = "10s", insecureSkipTlsVerify = false } = request;
  const { origin, pathname, search } = new URL(request.url);
  const timeoutMs = parseDuration(requestTimeout);
  const limit = AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)]);
  const socket = await connect?.(limit);
  const client = new Client(origin, {
    connect:
      socket === undefined
        ? { rejectUnauthorized: !insecureSkipTlsVerify, timeout: timeoutMs }
        : // undici accepts any duplex stream, but not before its connector has returned.
          (_, callback) =>
            void setImmediate(() => {
              if (socket.destroyed) callback(socket.errored ?? new ConnectionClosedError(), null);
              else callback(null, socket as never);
            }),
  });
  try {
    const response = await client.request({
      ...{ method, path: `${pathname}${search}`, signal: limit, headers: headerLists(headers) },
      ...(body === undefined ? {} : { body }),
    });
    // An aborted body emits an error, which would crash the process without a listener.
    response.body.on("error", () => {});
    const output = new OutputTail();
    let size = 0;
    for await (const chunk of response.body as AsyncIterable<Buffer>) {
      output.add(chunk);
      size += chunk.length;
      if (size > maxResponseBytes) throw new ToolError("NoResponse", `${describe(request)}: the response exceeds 16 MiB`);
    }
    return {
      exitCode: 0,
      ...output.result(),
      stderr: "",
      statusCode: response.statusCode,
      headers: headersOf(response.headers),
    };
  } catch (error) {
    if (limit.aborted && !signal.aborted) throw new TimeoutError(requestTimeout, error);
    throw error;
  } finally {
    await client.destroy();
    socket?.destroy();
  }
}

/** A connection that was closed before the request was sent. */
class ConnectionClosedError extends Error {
  override readonly name = "ConnectionClosedError";
  readonly code = "ConnectionClosed";

  constructor() {
    super("the connection was closed before the request was sent");
  }
}

/** A request that took too long. */
class TimeoutError extends Error {
  override readonly name = "TimeoutError";
  readonly code = "Timeout";

  constructor(timeout: string, cause: unknown) {
    super(`no complete response within ${timeout}`, { cause });
  }
}

const headerLists = (headers: NonNullable<DeepReadonly<HttpAction>["headers"]>): Record<string, string> =>
  Object.fromEntries(headers.map(({ name, value }) => [name, value]));

/** Maximum size of all headers in a result. */
const maxHeaderBytes = 8_192;

/** Headers of a response, with names in lower case. Those that do not fit are left out. */
function headersOf(headers: Readonly<Record<string, string | string[] | undefined>>): Record<string, string> {
  const result: Record<string, string> = {};
  let size = 0;
  for (const [name, value] of Object.entries(headers)) {
    const text = Array.isArray(value) ? value.join(", ") : (value ?? "");
    size += Buffer.byteLength(name) + Buffer.byteLength(text);
    if (size <= maxHeaderBytes) result[name.toLowerCase()] = text;
  }
  return result;
}

function causeOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const code: unknown = Reflect.get(error, "code");
  return error.message || (typeof code === "string" ? code : error.name);
}
