import { setImmediate as nextTurn } from "node:timers/promises";
import { StatusError, statusError } from "@keelson/api-machinery";
import type { ApiRequest, ApiResponse, Transport, WatchEvent, WatchStream } from "@keelson/api-machinery/transport";
import type { Handle, Outcome, PipelineRequest, WatchedEvent, WatchOutcome } from "./endpoints/outcome.ts";
import type { UserInfo } from "./registry/served-resource.ts";

/** Options of {@link createInProcessTransport}. */
export interface InProcessOptions {
  /** The user that requests are made as. */
  readonly user: UserInfo;
  /** The part before `/` is the default field manager. Default: the user name. */
  readonly userAgent?: string;
  /** Events buffered for a slow reader. A watch that exceeds it is ended, and the reader resumes. Default 10,000. */
  readonly watchBuffer?: number;
}

const success = 200;
/** Objects parsed in one turn of the event loop, which takes a few milliseconds. */
const sliceSize = 250;
const json = { "content-type": "application/json" };

/**
 * Creates a transport for clients in the same process. Requests run through the same pipeline as those over HTTP, but objects are passed
 * by reference, frozen and shared with the server, without encoding.
 */
export function createInProcessTransport(handle: Handle, options: InProcessOptions): Transport {
  const { user, userAgent = user.username, watchBuffer = 10_000 } = options;
  const watches = new Set<WatchStream>();
  let isClosed = false;

  const send = async (request: ApiRequest): Promise<Outcome> => {
    if (isClosed) throw statusError("ServiceUnavailable", "the transport is closed");
    request.signal?.throwIfAborted();
    const outcome = await handle(pipelineRequest(request, user, userAgent));
    request.signal?.throwIfAborted();
    return outcome;
  };

  return {
    async request(request) {
      const outcome = await send(request);
      if (outcome.kind === "watch") throw new TypeError("the request is a watch: call `watch`");
      return respond(outcome);
    },
    async watch(request) {
      const query = { watch: "1", ...request.query };
      const outcome = await send({ ...request, query });
      if (outcome.kind !== "watch") {
        if (outcome.kind === "status") throw new StatusError(outcome.status);
        throw statusError("BadRequest", `${request.path} cannot be watched`);
      }
      const onAbort = (): void => stream.close();
      const stream = streamOf(outcome, watchBuffer, () => {
        watches.delete(stream);
        request.signal?.removeEventListener("abort", onAbort);
      });
      watches.add(stream);
      // A signal may live as long as the process and be used by many watches, so listeners are removed.
      request.signal?.addEventListener("abort", onAbort, { once: true });
      return stream;
    },
    async stream(request) {
      const stop = new AbortController();
      const signal = request.signal === undefined ? stop.signal : AbortSignal.any([request.signal, stop.signal]);
      const outcome = await send({ ...request, signal });
      if (outcome.kind === "status") throw new StatusError(outcome.status);
      if (outcome.kind !== "raw") throw statusError("BadRequest", `${request.path} cannot be streamed`);
      return { [Symbol.asyncIterator]: () => chunksOf(outcome.body, signal), close: () => stop.abort() };
    },
    async close() {
      isClosed = true;
      for (const watch of watches) watch.close();
    },
  };
}

/** The request as the pipeline takes it. Field by field, because copies of objects of many shapes are slow. */
function pipelineRequest(request: ApiRequest, user: UserInfo, userAgent: string): PipelineRequest {
  const { method, path, query, headers, body, signal } = request;
  const requested = headers?.["user-agent"];
  const sent: { -readonly [Field in keyof PipelineRequest]: PipelineRequest[Field] } = {
    method,
    path,
    user,
    userAgent: requested ?? userAgent,
  };
  if (query !== undefined) sent.query = query;
  if (headers !== undefined) sent.headers = requested === undefined ? headers : withoutUserAgent(headers);
  if (body !== undefined) sent.body = body;
  if (signal !== undefined) sent.signal = signal;
  return sent;
}

function withoutUserAgent(headers: ApiRequest["headers"] = {}): Readonly<Record<string, string>> {
  const { "user-agent": _, ...others } = headers;
  return others;
}

async function respond(outcome: Exclude<Outcome, WatchOutcome>): Promise<ApiResponse> {
  switch (outcome.kind) {
    case "object":
      return { status: outcome.status, headers: withWarnings(outcome.warnings), body: outcome.object.object };
    case "status":
      return { status: outcome.status.code ?? success, headers: withWarnings(outcome.warnings), body: outcome.status };
    case "list": {
      const { resource, listMeta, items } = outcome;
      const apiVersion = resource.group === "" ? resource.version : `${resource.group}/${resource.version}`;
      const objects: unknown[] = [];
      for (const [index, item] of items.entries()) {
        if (index > 0 && index % sliceSize === 0) await nextTurn();
        objects.push(item.object);
      }
      return {
        status: success,
        headers: json,
        body: { apiVersion, kind: resource.listKind, metadata: listMeta, items: objects },
      };
    }
    case "document":
      return { status: outcome.status, headers: { ...json, ...outcome.headers }, body: outcome.body };
    case "raw":
      return { status: outcome.status, headers: outcome.headers, body: await textOf(outcome.body) };
    case "upgrade":
      throw statusError("BadRequest", "protocol upgrades need an HTTP connection");
  }
}

function withWarnings(warnings: readonly string[] | undefined): Readonly<Record<string, string>> {
  if (warnings === undefined || warnings.length === 0) return json;
  return { ...json, warning: warnings.map((text) => `299 - ${JSON.stringify(text)}`).join(", ") };
}

type RawBody = Uint8Array | string | AsyncIterable<Uint8Array>;

async function textOf(body: RawBody): Promise<string> {
  if (typeof body === "string") return body;
  const parts: Uint8Array[] = [];
  for await (const part of chunksOf(body)) parts.push(part);
  return Buffer.concat(parts).toString();
}

async function* chunksOf(body: RawBody, signal?: AbortSignal): AsyncGenerator<Uint8Array, void, undefined> {
  if (typeof body === "string" || body instanceof Uint8Array) {
    yield typeof body === "string" ? Buffer.from(body) : body;
    return;
  }
  for await (const part of body) {
    if (signal?.aborted) return;
    yield part;
  }
}

/** Buffers a watch's events as an async iterable. */
function streamOf(outcome: WatchOutcome, limit: number, onClose: () => void): WatchStream {
  let events: WatchedEvent[] = [];
  let next = 0;
  let hasEnded = false;
  let wake: (() => void) | undefined;
  let source: { close(): void } | undefined;

  const end = (): void => {
    if (hasEnded) return;
    hasEnded = true;
    source?.close();
    onClose();
    wake?.();
  };
  source = outcome.open({
    events(batch, isInitial = false) {
      if (hasEnded) return;
      // The initial state does not count: it may exceed any buffer and is in memory already.
      if (!isInitial && events.length - next + batch.length > limit) {
        end();
        return;
      }
      for (const event of batch) events.push(event);
      wake?.();
    },
    end,
  });
  // The watch may have ended while it was being opened.
  if (hasEnded) source.close();

  async function* iterate(): AsyncGenerator<WatchEvent<unknown>, void, undefined> {
    try {
      for (;;) {
        while (next < events.length) {
          const event = events[next++];
          if (event !== undefined) yield present(event);
          // Yields to the event loop: a reader that never waits would block it during a long initial state.
          if (next % sliceSize === 0) await nextTurn();
        }
        events = [];
        next = 0;
        if (hasEnded) return;
        await new Promise<void>((resolve) => {
          wake = resolve;
        });
        wake = undefined;
      }
    } finally {
      end();
    }
  }
  const iterator = iterate();
  return {
    [Symbol.asyncIterator]: () => iterator,
    close() {
      // Closing discards buffered events.
      events = [];
      next = 0;
      end();
    },
  };
}

function present(event: WatchedEvent): WatchEvent<unknown> {
  return event.type === "ERROR" ? { type: "ERROR", object: event.status } : { type: event.type, object: event.object.object };
}
