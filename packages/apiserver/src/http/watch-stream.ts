import type { ServerResponse } from "node:http";
import type { Clock, Timer } from "@keelson/api-machinery";
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
  let queue: WatchedEvent[] = [];
  let head = 0;
  let pendingBytes = 0;
  /** Events at the head of the queue that were there from the beginning: they count for no limit. */
  let initial = 0;
  let isOpening = true;
  let isBlocked = false;
  let isEnding = false;
  let stall: Timer | undefined;
  let source: { close(): void } | undefined;

  /** The columns of Tables are told once, with the first event. */
  let hasColumns = false;
  const encode = (event: WatchedEvent): Uint8Array => {
    if (representation.as === undefined) return sharedLine(event);
    const line = convertedLine(event, outcome, representation, context(), hasColumns);
    hasColumns ||= representation.as === "Table" && event.type !== "ERROR";
    return line;
  };

  const stop = (): void => {
    stall?.cancel();
    stall = undefined;
    queue = [];
    head = 0;
    isEnding = true;
    source?.close();
  };

  const pump = (): void => {
    while (!isBlocked && head < queue.length) {
      const lines: Uint8Array[] = [];
      let bytes = 0;
      while (head < queue.length && bytes < writeBytes) {
        const event = queue[head++];
        if (event === undefined) continue;
        const line = encode(event);
        if (initial > 0) initial--;
        else pendingBytes -= sizeOf(event);
        lines.push(line);
        bytes += line.length;
      }
      const [only] = lines;
      isBlocked = !response.write(lines.length === 1 && only !== undefined ? only : Buffer.concat(lines, bytes));
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

  response.on("drain", () => {
    stall?.cancel();
    stall = undefined;
    isBlocked = false;
    pump();
  });
  response.on("close", stop);
  response.flushHeaders();

  source = outcome.open({
    events(batch) {
      if (isEnding) return;
      for (const event of batch) {
        queue.push(event);
        if (isOpening) initial++;
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
  isOpening = false;
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

type Line = { readonly type: WatchedEvent["type"]; readonly bytes: Uint8Array };

/** Lines of recent events: watchers are told of an event one after the other, and all send the same bytes. */
let lines = new WeakMap<EncodedObject, Line>();
let linesBytes = 0;
/** A line lives as long as its object does, which is long for most. So that they don't double storage, all are dropped now and then. */
const maxLinesBytes = 4 * 1024 * 1024;

function sharedLine(event: WatchedEvent): Uint8Array {
  if (event.type === "ERROR") return errorLine(event);
  const known = lines.get(event.object);
  if (known?.type === event.type) return known.bytes;
  const bytes = Buffer.concat([openings[event.type], event.object.bytes, closing]);
  if (linesBytes > maxLinesBytes) {
    lines = new WeakMap();
    linesBytes = 0;
  }
  lines.set(event.object, { type: event.type, bytes });
  linesBytes += bytes.length;
  return bytes;
}

function convertedLine(
  event: WatchedEvent,
  outcome: WatchOutcome,
  representation: Representation,
  context: EncodeContext,
  hasColumns: boolean,
): Uint8Array {
  if (event.type === "ERROR") return errorLine(event);
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
