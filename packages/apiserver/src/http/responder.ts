import type { IncomingMessage, ServerResponse } from "node:http";
import { type Status, statusError } from "@keelson/api-machinery";
import type { Clock } from "@keelson/api-machinery/time";
import type { Outcome } from "../endpoints/outcome.ts";
import {
  bodyOf,
  chooseRepresentation,
  type EncodeContext,
  type EncodedBody,
  encodeList,
  encodeObject,
  encodeStatus,
  encodeValue,
  type ToTable,
} from "./encode.ts";
import { acceptsDocument, failureFormat, notAcceptable, type Representation } from "./negotiation.ts";
import { includeObject, type Target, wantsPretty } from "./request-target.ts";
import { type ResponseHeaders, sendBody, warningHeaders } from "./send.ts";
import { sendWatch, type WatchLimits } from "./watch-stream.ts";

/** A request whose answer is to be sent. */
export interface Exchange {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly accepted: readonly Representation[];
  readonly query: Target["query"];
  /** What every answer to the request has; each kind of answer adds to them, and they are written once. */
  readonly headers: ResponseHeaders;
}

/** Writes answers in the form that was asked for, and knows the watches that it is writing. */
export interface Responder {
  /** Resolves when the answer is handed to the socket, or the watch is open. Throws a StatusError before anything is sent. */
  send(exchange: Exchange, outcome: Outcome): Promise<void>;
  fail(exchange: Exchange, status: Status): Promise<void>;
  /** Ends all watches, also those that are opened later. */
  endWatches(): void;
}

/** Makes a {@link Responder}. */
export function createResponder(options: {
  readonly toTable: ToTable;
  readonly clock: Clock;
  readonly limits: WatchLimits;
}): Responder {
  const { clock } = options;
  const watches = new Set<() => void>();
  let isEnded = false;

  async function send(exchange: Exchange, outcome: Outcome): Promise<void> {
    const { request, response, accepted, query, headers } = exchange;
    const pretty = wantsPretty(request, query);
    const context = (): EncodeContext => ({ toTable: options.toTable, includeObject: includeObject(query), now: clock.now() });
    const reply = (status: number, style: Pick<Representation, "format">, body: EncodedBody, extra = {}): Promise<void> =>
      sendBody(
        response,
        { status, headers: Object.assign(headers, contentType[style.format], extra), body },
        { isHead: request.method === "HEAD", acceptEncoding: request.headers["accept-encoding"] },
      );
    const choose = (from: Parameters<typeof chooseRepresentation>[1]): Representation => {
      const chosen = chooseRepresentation(accepted, from);
      return { ...chosen, pretty: pretty || chosen.pretty };
    };
    switch (outcome.kind) {
      case "object": {
        const representation = choose(outcome);
        setWarnings(headers, outcome.warnings);
        return reply(outcome.status, representation, await encodeObject(outcome, representation, context()));
      }
      case "list": {
        const representation = choose(outcome);
        setWarnings(headers, outcome.warnings);
        return reply(200, representation, await encodeList(outcome, representation, context()));
      }
      case "watch": {
        const representation = choose(outcome);
        if (request.method === "HEAD") throw statusError("MethodNotAllowed", "a watch needs GET");
        setWarnings(headers, outcome.warnings);
        response.writeHead(200, Object.assign(headers, contentType.json));
        const end = sendWatch(response, outcome, representation, context, clock, options.limits);
        if (response.destroyed) return;
        watches.add(end);
        response.on("close", () => watches.delete(end));
        if (isEnded) end();
        return;
      }
      case "status": {
        setWarnings(headers, outcome.warnings);
        return fail(exchange, outcome.status);
      }
      case "document": {
        if (!acceptsDocument(request.headers.accept)) throw notAcceptable();
        const style = { format: failureFormat(accepted), pretty };
        return reply(outcome.status, style, await encodeDocument(outcome.body, style), outcome.headers);
      }
      case "raw":
        return sendRaw(exchange, outcome);
      default:
        throw new Error(`unknown kind of answer: ${JSON.stringify(outcome)}`);
    }
  }

  async function fail({ request, response, accepted, query, headers }: Exchange, status: Status): Promise<void> {
    const style = { format: failureFormat(accepted), pretty: wantsPretty(request, query) };
    const code = status.code ?? (status.status === "Success" ? 200 : 500);
    const retryAfter = status.details?.retryAfterSeconds;
    // What is left of an unread body is not worth reading: the connection goes.
    if (!request.complete) headers["connection"] = "close";
    if (retryAfter !== undefined) headers["retry-after"] = String(retryAfter);
    await sendBody(
      response,
      { status: code, headers: Object.assign(headers, contentType[style.format]), body: await encodeStatus(status, style) },
      { isHead: request.method === "HEAD", acceptEncoding: request.headers["accept-encoding"] },
    );
  }

  return {
    send,
    fail,
    endWatches() {
      isEnded = true;
      for (const end of watches) end();
    },
  };
}

/** JSON of documents that stay the same object: discovery and OpenAPI are long and asked for often. */
const documents = new WeakMap<object, EncodedBody>();

async function encodeDocument(body: unknown, style: Pick<Representation, "format" | "pretty">): Promise<EncodedBody> {
  if (body === undefined || body === null) return bodyOf(new Uint8Array());
  if (style.format !== "json" || style.pretty || typeof body !== "object") return encodeValue(body, style);
  const known = documents.get(body);
  if (known !== undefined) return known;
  const encoded = await encodeValue(body, style);
  documents.set(body, encoded);
  return encoded;
}

async function sendRaw(
  { request, response, headers: common }: Exchange,
  outcome: Extract<Outcome, { kind: "raw" }>,
): Promise<void> {
  const { body, status } = outcome;
  const headers = Object.assign(common, outcome.headers);
  if (typeof body === "string" || body instanceof Uint8Array) {
    await sendBody(
      response,
      { status, headers, body: bodyOf(typeof body === "string" ? Buffer.from(body) : body) },
      { isHead: request.method === "HEAD", acceptEncoding: request.headers["accept-encoding"] },
    );
    return;
  }
  response.writeHead(status, headers);
  response.flushHeaders();
  if (request.method !== "HEAD") {
    for await (const part of body) {
      if (response.destroyed) return;
      if (!response.write(part)) await drained(response);
    }
  }
  response.end();
}

function drained(response: ServerResponse): Promise<void> {
  return new Promise((resolve) => {
    const done = (): void => {
      response.off("drain", done);
      response.off("close", done);
      resolve();
    };
    response.on("drain", done);
    response.on("close", done);
  });
}

function setWarnings(headers: ResponseHeaders, warnings: readonly string[] | undefined): void {
  if (warnings?.length) headers["warning"] = warningHeaders(warnings);
}

const contentType = {
  json: { "content-type": "application/json" },
  yaml: { "content-type": "application/yaml" },
};
