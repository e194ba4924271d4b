import type { ServerResponse } from "node:http";
import type { Clock, Timer } from "@keelson/api-machinery/time";
import type { EncodedObject, WatchedEvent, WatchOutcome } from "../endpoints/outcome.ts";
import { type EncodeContext, objectValue } from "./encode.ts";
import type { Representation } from "./negotiation.ts";

/** How much a watcher may be behind. */
export interface WatchLimits {
  /** Bytes of events that wait to be sent, not counting those that were there when the watch began. */
  readonly pendingBytes: number;
  /** How long a watcher may take nothing while something waits for it. */
  readonly stallMs: number;
}

/** Bytes of one write: as much as a socket takes at once. */
const writeBytes = 64 * 1024;

/**
 * Sends a watch as newline-delimited JSON until the server or the client ends it. A client that does not read is
 * disconnected when it is further behind than `limits` say: it resumes from the last event that it has seen.
 *
 * @returns a function that ends the stream after what was accepted so far.
 */
export function sendWatch(
  response: ServerResponse,
  outcome: WatchOutcome,
  representation: Representation,
  context: () => EncodeContext,
  clock: Clock,
  limits: WatchLimits,
): () => void {
  response.flushHeaders();
  const { socket } = response;
  // Chunks are written to the connection itself: so they are made once for all who watch, and are one buffer to encrypt. Not where the
  // client knows no chunks (HTTP/1.0), nor where the connection is still taken by the answer to an earlier request.
  const isDirect = socket !== null && response.chunkedEncoding;
  const connection = isDirect ? socket : response;
  let queue: WatchedEvent[] = [];
  let head = 0;
  let pendingBytes = 0;
  /** Events at the head of the queue that count for no limit. */
  let initial = 0;
  let isEnding = false;
  let isBlocked = false;
  let stall: Timer | undefined;
  let source: { close(): void } | undefined;

  /** The columns of Tables are told once, with the first event. */
  let hasColumns = false;
  const encode = (event: WatchedEvent): Chunk => {
    if (event.type === "ERROR") return chunkOf([errorLine(event)]);
    if (representation.as === undefined) return sharedChunk(event.type, event.object);
    const line = convertedLine(event, outcome, representation, context(), hasColumns);
    hasColumns ||= representation.as === "Table";
    return chunkOf([line]);
  };
  const join = (chunks: readonly Chunk[]): Uint8Array => {
    const [only] = chunks;
    const lines = chunks.map(({ line }) => line);
    if (!isDirect) return Buffer.concat(lines);
    return (chunks.length === 1 && only !== undefined ? only : chunkOf(lines)).bytes;
  };

  const stop = (): void => {
    stall?.cancel();
    stall = undefined;
    queue = [];
    head = 0;
    isEnding = true;
    source?.close();
    // The connection may serve other requests after this one.
    connection.off("drain", resume);
  };

  const resume = (): void => {
    stall?.cancel();
    stall = undefined;
    isBlocked = false;
    pump();
  };

  const pump = (): void => {
    while (!isBlocked && head < queue.length) {
      const chunks: Chunk[] = [];
      let bytes = 0;
      while (head < queue.length && bytes < writeBytes) {
        const event = queue[head++];
        if (event === undefined) continue;
        const chunk = encode(event);
        if (initial > 0) initial--;
        else pendingBytes -= sizeOf(event);
        chunks.push(chunk);
        bytes += chunk.line.length;
      }
      isBlocked = !connection.write(join(chunks));
    }
    if (head === queue.length) {
      queue = [];
      head = 0;
      if (isEnding) response.end();
    }
    if (isBlocked && stall === undefined)
      stall = clock.setTimer(limits.stallMs, () => response.destroy(), { background: true });
  };

  const end = (): void => {
    if (isEnding) return;
    isEnding = true;
    source?.close();
    pump();
  };

  connection.on("drain", resume);
  response.on("close", stop);

  source = outcome.open({
    events(batch, isInitial = false) {
      if (isEnding) return;
      for (const event of batch) {
        queue.push(event);
        if (isInitial) initial++;
        else pendingBytes += sizeOf(event);
      }
      if (!isBlocked) pump();
      else if (pendingBytes > limits.pendingBytes) {
        stop();
        response.destroy();
      }
    },
    end,
  });
  // The sink may have been ended before there was a source to close.
  if (isEnding || response.destroyed) source.close();
  return end;
}

function sizeOf(event: WatchedEvent): number {
  return event.type === "ERROR" ? 0 : event.object.bytes.length;
}

const openings = {
  ADDED: Buffer.from('{"type":"ADDED","object":'),
  MODIFIED: Buffer.from('{"type":"MODIFIED","object":'),
  DELETED: Buffer.from('{"type":"DELETED","object":'),
  BOOKMARK: Buffer.from('{"type":"BOOKMARK","object":'),
};
const closing = Buffer.from("}\n");

/** A chunk of HTTP/1.1 (RFC 9112 section 7.1), and the line in it. */
interface Chunk {
  readonly bytes: Uint8Array;
  readonly line: Uint8Array;
}

/** Chunks of recent events: watchers are told of an event one after the other, and all are sent the same bytes. */
let shared = new WeakMap<EncodedObject, Chunk & { readonly type: WatchedEvent["type"] }>();
let sharedBytes = 0;
/** A chunk lives as long as its object does, which is long for most. So that they don't double storage, all are dropped now and then. */
const maxSharedBytes = 4 * 1024 * 1024;

function sharedChunk(type: keyof typeof openings, object: EncodedObject): Chunk {
  const known = shared.get(object);
  if (known?.type === type) return known;
  const { bytes, line } = chunkOf([openings[type], object.bytes, closing]);
  if (sharedBytes > maxSharedBytes) {
    shared = new WeakMap();
    sharedBytes = 0;
  }
  const chunk = { type, bytes, line };
  shared.set(object, chunk);
  sharedBytes += bytes.length;
  return chunk;
}

const chunkEnd = Buffer.from("\r\n");

function chunkOf(parts: readonly Uint8Array[]): Chunk {
  const length = parts.reduce((sum, part) => sum + part.length, 0);
  const head = Buffer.from(`${length.toString(16)}\r\n`);
  const bytes = Buffer.concat([head, ...parts, chunkEnd]);
  return { bytes, line: bytes.subarray(head.length, head.length + length) };
}

function convertedLine(
  event: Exclude<WatchedEvent, { type: "ERROR" }>,
  outcome: WatchOutcome,
  representation: Representation,
  context: EncodeContext,
  hasColumns: boolean,
): Uint8Array {
  const value = {
    ...(objectValue(event.object, outcome.resource, representation, context) as object),
    ...(hasColumns ? { columnDefinitions: null } : {}),
    // A bookmark is no object: its Table has the version that it is for, and no row.
    ...(event.type === "BOOKMARK" && representation.as === "Table" ? { rows: [] } : {}),
  };
  return Buffer.from(`{"type":"${event.type}","object":${JSON.stringify(value)}}\n`);
}

function errorLine(event: Extract<WatchedEvent, { type: "ERROR" }>): Uint8Array {
  return Buffer.from(`{"type":"ERROR","object":${JSON.stringify(event.status)}}\n`);
}
