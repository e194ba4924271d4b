import type { IncomingMessage, ServerResponse } from "node:http";
import { type Status, statusError } from "@keelson/api-machinery";
import type { Clock } from "@keelson/api-machinery/time";
import type { DocumentOutcome, Outcome, RawOutcome, StatusOutcome, WatchOutcome } from "../endpoints/outcome.ts";
import {
  bodyOf,
  chooseRepresentation,
  type EncodeContext,
  type EncodedBody,
  encodeList,
  encodeObject,
  encodeValue,
  type ToTable,
} from "./encode.ts";
import { documentFormat, failureFormat, protobufType, type Representation } from "./negotiation.ts";
import { isMessage, protobufOf } from "./protobuf/body.ts";
import { ProtobufEncoder } from "./protobuf/encode.ts";
import { includeObject, splitTarget, type Target, wantsPretty } from "./request-target.ts";
import { type ResponseHeaders, sendBody, warningHeaders } from "./send.ts";
import { FanOut } from "./watch/fan-out.ts";
import { jsonLines, protobufFrames } from "./watch/watch-encoding.ts";
import { ChunkCache, type WatchLimits, WatchStream } from "./watch/watch-stream.ts";

/** A request and the response to send. */
export interface Exchange {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly accepted: readonly Representation[];
  readonly query: Target["query"];
  /** Headers of every response. Each kind of outcome adds to them before they are written. */
  readonly headers: ResponseHeaders;
}

/** What {@link Responder} takes. */
export interface ResponderOptions {
  readonly toTable: ToTable;
  readonly clock: Clock;
  readonly limits: WatchLimits;
}

/** Longer documents are not indented: OpenAPI takes 50 ms. */
const maxFormattedBytes = 256 * 1024;

/** Writes responses in the negotiated representation and tracks open watches. */
export class Responder {
  readonly #options: ResponderOptions;
  readonly #watches = new Set<WatchStream>();
  readonly #protobuf = new ProtobufEncoder();
  readonly #chunks = { json: new ChunkCache(jsonLines), protobuf: new ChunkCache(protobufFrames(this.#protobuf)) };
  readonly #fanOut: FanOut;
  /** Memoizes the JSON of documents that stay the same object: discovery and OpenAPI are large and requested often. */
  readonly #documents = new WeakMap<object, EncodedBody>();
  #isEnded = false;

  constructor(options: ResponderOptions) {
    this.#options = options;
    this.#fanOut = new FanOut(options.clock);
  }

  /** Resolves when the response is handed to the socket, or the watch is open. Throws a StatusError before anything is sent. */
  async send(exchange: Exchange, outcome: Outcome): Promise<void> {
    const { headers } = exchange;
    switch (outcome.kind) {
      case "object": {
        const representation = this.#choose(exchange, outcome);
        setWarnings(headers, outcome.warnings);
        const body = await encodeObject(outcome, representation, this.#context(exchange));
        return reply(exchange, outcome.status, representation, body);
      }
      case "list": {
        const representation = this.#choose(exchange, outcome);
        setWarnings(headers, outcome.warnings);
        return reply(exchange, 200, representation, await encodeList(outcome, representation, this.#context(exchange)));
      }
      case "watch":
        return this.#sendWatch(exchange, outcome);
      case "status":
        setWarnings(headers, outcome.warnings);
        Object.assign(headers, outcome.headers);
        return outcome.text === undefined
          ? this.fail(exchange, outcome.status)
          : sendRaw(exchange, plainText(outcome, outcome.text));
      case "document": {
        const { request, accepted, query } = exchange;
        const { path } = splitTarget(request.url ?? "/");
        const hasProtobuf = outcome.encoded === undefined && isMessage(outcome.body);
        const format = documentFormat(path, request.headers.accept, accepted, hasProtobuf);
        const style = { format, pretty: wantsPretty(request, query) };
        return reply(exchange, outcome.status, style, await this.#encodeDocument(outcome, style), outcome.headers);
      }
      case "raw":
        return sendRaw(exchange, outcome);
      case "upgrade":
        throw new TypeError("the HTTP server handles upgrades");
    }
  }

  /** Sends a Status. */
  async fail(exchange: Exchange, status: Status): Promise<void> {
    const { request, accepted, query, headers } = exchange;
    const style = { format: failureFormat(accepted), pretty: wantsPretty(request, query) };
    const code = status.code ?? (status.status === "Success" ? 200 : 500);
    const retryAfter = status.details?.retryAfterSeconds;
    // The rest of an unread body is not worth reading, so the connection is closed.
    if (!request.complete) headers["connection"] = "close";
    if (retryAfter !== undefined) headers["retry-after"] = String(retryAfter);
    await reply(exchange, code, style, await this.#encode(status, style));
  }

  /** Ends all watches, including those opened later. */
  endWatches(): void {
    this.#isEnded = true;
    for (const watch of this.#watches) watch.end();
  }

  #sendWatch(exchange: Exchange, outcome: WatchOutcome): void {
    const { request, response, headers } = exchange;
    const { clock, limits } = this.#options;
    const representation = this.#choose(exchange, outcome);
    if (request.method === "HEAD") throw statusError("MethodNotAllowed", "a watch must use GET");
    setWarnings(headers, outcome.warnings);
    const chunks = this.#chunks[representation.format === "protobuf" ? "protobuf" : "json"];
    response.writeHead(200, Object.assign(headers, { "content-type": chunks.encoding.contentType }));
    const context = (): EncodeContext => this.#context(exchange);
    const shared = { clock, limits, chunks, fanOut: this.#fanOut };
    const watch = new WatchStream({ response, outcome, representation, context, ...shared });
    watch.start();
    if (response.destroyed) return;
    this.#watches.add(watch);
    response.on("close", () => this.#watches.delete(watch));
    if (this.#isEnded) watch.end();
  }

  #choose({ accepted, request, query }: Exchange, outcome: Parameters<typeof chooseRepresentation>[1]): Representation {
    const chosen = chooseRepresentation(accepted, outcome);
    return { ...chosen, pretty: wantsPretty(request, query) || chosen.pretty };
  }

  #context({ query }: Exchange): EncodeContext {
    const { toTable, clock } = this.#options;
    return { toTable, includeObject: includeObject(query), now: clock.now(), protobuf: this.#protobuf };
  }

  async #encode(value: unknown, style: Pick<Representation, "format" | "pretty">): Promise<EncodedBody> {
    return style.format === "protobuf" ? bodyOf(protobufOf(value, this.#protobuf)) : encodeValue(value, style);
  }

  async #encodeDocument(outcome: DocumentOutcome, style: Pick<Representation, "format" | "pretty">): Promise<EncodedBody> {
    const { encoded } = outcome;
    const isPlain = style.format === "json" && !style.pretty;
    if (encoded !== undefined && (isPlain || encoded.length > maxFormattedBytes)) return bodyOf(encoded);
    const { body } = outcome;
    if (body === undefined || body === null) return bodyOf(new Uint8Array());
    if (typeof body !== "object" || style.format === "protobuf") return this.#encode(body, style);
    const compact = this.#documents.get(body) ?? (await encodeValue(body, { format: "json", pretty: false }));
    this.#documents.set(body, compact);
    // JSON is YAML as well.
    return isPlain || (compact.bytes ?? 0) > maxFormattedBytes ? compact : encodeValue(body, style);
  }
}

function reply(
  { request, response, headers }: Exchange,
  status: number,
  style: Pick<Representation, "format">,
  body: EncodedBody,
  extra: Readonly<Record<string, string>> = {},
): Promise<void> {
  return sendBody(
    response,
    { status, headers: Object.assign(headers, contentType[style.format], extra), body },
    { isHead: request.method === "HEAD", acceptEncoding: request.headers["accept-encoding"] },
  );
}

/** A failure as Go's `http.Error` sends it. */
function plainText({ status }: StatusOutcome, text: string): RawOutcome {
  const headers = { "content-type": "text/plain; charset=utf-8", "x-content-type-options": "nosniff" };
  return { kind: "raw", status: status.code ?? 500, headers, body: text };
}

async function sendRaw({ request, response, headers: common }: Exchange, outcome: RawOutcome): Promise<void> {
  const { body, status } = outcome;
  const headers = Object.assign(common, outcome.headers);
  if (outcome.cookies !== undefined) common["set-cookie"] = [...outcome.cookies];
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
  protobuf: { "content-type": protobufType },
};
