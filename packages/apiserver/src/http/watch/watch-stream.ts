import type { ServerResponse } from "node:http";
import type { Writable } from "node:stream";
import type { Clock, Timer } from "@keelson/api-machinery/time";
import type { EncodedObject, WatchedEvent, WatchOutcome } from "../../endpoints/outcome.ts";
import { type EncodeContext, objectValue } from "../encode.ts";
import type { FanOut } from "./fan-out.ts";
import type { Representation } from "../negotiation.ts";
import type { ObjectEventType, WatchEncoding } from "./watch-encoding.ts";

/** How far a watcher may fall behind. */
export interface WatchLimits {
  /** Bytes of events waiting to be sent, not counting the initial state. */
  readonly pendingBytes: number;
  /** How long a watcher may read nothing while events are waiting. */
  readonly stallMs: number;
}

/** What {@link WatchStream} takes. */
export interface WatchStreamOptions {
  readonly response: ServerResponse;
  readonly outcome: WatchOutcome;
  readonly representation: Representation;
  /** The context of Tables, evaluated per event. */
  readonly context: () => EncodeContext;
  readonly clock: Clock;
  readonly limits: WatchLimits;
  /** Shared by all watches of a server with the same encoding. */
  readonly chunks: ChunkCache;
  /** Shared by all watches of a server. */
  readonly fanOut: Pick<FanOut, "add" | "delete">;
}

/** Bytes per write: about what a socket takes at a time. */
const writeBytes = 64 * 1024;

/**
 * Sends a watch as newline-delimited JSON or frames of protobuf until the server or the client ends it. A client that exceeds the limits is disconnected; it
 * resumes from the last event it has seen.
 */
export class WatchStream {
  readonly #options: WatchStreamOptions;
  /**
   * Whether chunks are written to the socket directly: then they are encoded once for all watchers and encrypted as one buffer. Not for
   * HTTP/1.0 clients, nor while the socket is busy with the response to an earlier pipelined request.
   */
  readonly #isDirect: boolean;
  readonly #connection: Writable;
  #queue: WatchedEvent[] = [];
  #head = 0;
  #pendingBytes = 0;
  /** Number of initial events at the head of the queue, which do not count towards the limit. */
  #initial = 0;
  #isEnding = false;
  #isBlocked = false;
  /** The columns of a Table are sent once, with the first event. */
  #hasSentColumns = false;
  #stall: Timer | undefined;
  #source: { close(): void } | undefined;

  constructor(options: WatchStreamOptions) {
    const { response } = options;
    this.#options = options;
    response.flushHeaders();
    const { socket } = response;
    this.#isDirect = socket !== null && response.chunkedEncoding;
    this.#connection = socket !== null && this.#isDirect ? socket : response;
  }

  /** Opens the watch and starts sending. */
  start(): void {
    const { response, outcome, limits, fanOut } = this.#options;
    this.#connection.on("drain", this.#resume);
    response.on("close", () => this.#stop());
    this.#source = outcome.open({
      events: (batch, isInitial = false) => {
        if (this.#isEnding) return;
        for (const event of batch) {
          this.#queue.push(event);
          if (isInitial) this.#initial++;
          else this.#pendingBytes += sizeOf(event);
        }
        // The initial state is read in slices already.
        if (!this.#isBlocked && isInitial) this.#pump();
        else if (!this.#isBlocked) fanOut.add(this.#pump);
        else if (this.#pendingBytes > limits.pendingBytes) {
          this.#stop();
          response.destroy();
        }
      },
      end: () => this.end(),
    });
    // The sink may have been ended before `open` returned the source.
    if (this.#isEnding || response.destroyed) this.#source.close();
  }

  /** Ends the stream after the events accepted so far. */
  end(): void {
    if (this.#isEnding) return;
    this.#isEnding = true;
    this.#source?.close();
    this.#pump();
  }

  #stop(): void {
    this.#options.fanOut.delete(this.#pump);
    this.#stall?.cancel();
    this.#stall = undefined;
    this.#queue = [];
    this.#head = 0;
    this.#isEnding = true;
    this.#source?.close();
    // The connection may serve other requests after this one.
    this.#connection.off("drain", this.#resume);
  }

  readonly #resume = (): void => {
    this.#stall?.cancel();
    this.#stall = undefined;
    this.#isBlocked = false;
    this.#pump();
  };

  readonly #pump = (): void => {
    while (!this.#isBlocked && this.#head < this.#queue.length) {
      this.#isBlocked = !this.#connection.write(this.#nextWrite());
    }
    const { response, clock, limits } = this.#options;
    if (this.#head === this.#queue.length) {
      this.#queue = [];
      this.#head = 0;
      if (this.#isEnding) response.end();
    }
    if (this.#isBlocked) {
      this.#stall ??= clock.setTimer(limits.stallMs, () => response.destroy(), { background: true });
    }
  };

  #nextWrite(): Uint8Array {
    const chunks: Chunk[] = [];
    let bytes = 0;
    while (this.#head < this.#queue.length && bytes < writeBytes) {
      const event = this.#queue[this.#head++];
      if (event === undefined) continue;
      const chunk = this.#encode(event);
      if (this.#initial > 0) this.#initial--;
      else this.#pendingBytes -= sizeOf(event);
      chunks.push(chunk);
      bytes += chunk.line.length;
    }
    const [first] = chunks;
    const lines = chunks.map(({ line }) => line);
    if (!this.#isDirect) return Buffer.concat(lines);
    return (chunks.length === 1 && first !== undefined ? first : this.#options.chunks.join(lines)).bytes;
  }

  #encode(event: WatchedEvent): Chunk {
    const { outcome, representation, context, chunks } = this.#options;
    if (event.type === "ERROR") return chunkOf([chunks.encoding.value(event.type, event.status)]);
    if (representation.as === undefined) return chunks.get(event.type, event.object);
    const value = converted(event, outcome, representation, context(), this.#hasSentColumns);
    this.#hasSentColumns ||= representation.as === "Table";
    return chunkOf([chunks.encoding.value(event.type, value)]);
  }
}

function sizeOf(event: WatchedEvent): number {
  return event.type === "ERROR" ? 0 : event.object.bytes.length;
}

/** A chunk of HTTP/1.1 (RFC 9112 section 7.1) and the line it contains. */
interface Chunk {
  readonly bytes: Uint8Array;
  readonly line: Uint8Array;
}

/** Chunks live as long as their objects, which may be long. The cache is dropped at this size so that it does not double storage. */
const maxSharedBytes = 4 * 1024 * 1024;

/** Chunks of recent events in one encoding, shared by all watchers of an event. */
export class ChunkCache {
  readonly encoding: WatchEncoding;
  #chunks = new WeakMap<EncodedObject, Chunk & { readonly type: WatchedEvent["type"] }>();
  #bytes = 0;
  #joined: { readonly lines: readonly Uint8Array[]; readonly chunk: Chunk } | undefined;

  constructor(encoding: WatchEncoding) {
    this.encoding = encoding;
  }

  /** One chunk of several lines. Watchers of the same events that send one after the other share it. */
  join(lines: readonly Uint8Array[]): Chunk {
    if (this.#joined === undefined || !isSame(this.#joined.lines, lines)) this.#joined = { lines, chunk: chunkOf(lines) };
    return this.#joined.chunk;
  }

  /** The chunk of an event. */
  get(type: ObjectEventType, object: EncodedObject): Chunk {
    const known = this.#chunks.get(object);
    if (known?.type === type) return known;
    const { bytes, line } = chunkOf(this.encoding.object(type, object));
    if (this.#bytes > maxSharedBytes) {
      this.#chunks = new WeakMap();
      this.#bytes = 0;
    }
    const chunk = { type, bytes, line };
    this.#chunks.set(object, chunk);
    this.#bytes += bytes.length;
    return chunk;
  }
}

const isSame = (a: readonly Uint8Array[], b: readonly Uint8Array[]): boolean =>
  a.length === b.length && a.every((line, index) => line === b[index]);

const chunkEnd = Buffer.from("\r\n");

function chunkOf(parts: readonly Uint8Array[]): Chunk {
  const length = parts.reduce((sum, part) => sum + part.length, 0);
  const head = Buffer.from(`${length.toString(16)}\r\n`);
  const bytes = Buffer.concat([head, ...parts, chunkEnd]);
  return { bytes, line: bytes.subarray(head.length, head.length + length) };
}

function converted(
  event: Exclude<WatchedEvent, { type: "ERROR" }>,
  outcome: WatchOutcome,
  representation: Representation,
  context: EncodeContext,
  hasColumns: boolean,
): object {
  return {
    ...(objectValue(event.object, outcome.resource, representation, context) as object),
    ...(hasColumns ? { columnDefinitions: null } : {}),
    ...(event.type === "BOOKMARK" && representation.as === "Table" ? { rows: bookmarkRows(event) } : {}),
  };
}

/** The Table of a bookmark has no rows, except that its annotations are those of a row without a name. */
function bookmarkRows({ object }: Exclude<WatchedEvent, { type: "ERROR" }>): readonly unknown[] {
  const { metadata } = object.object;
  if (metadata.annotations === undefined) return [];
  return [{ cells: [], object: { kind: "PartialObjectMetadata", apiVersion: "meta.k8s.io/v1", metadata } }];
}
