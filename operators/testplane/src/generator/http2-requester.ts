import {
  type ClientHttp2Session,
  type ClientHttp2Stream,
  connect,
  constants,
  type IncomingHttpHeaders,
  type OutgoingHttpHeaders,
} from "node:http2";
import { type LoadPlan, maxStreams } from "./load-plan.ts";
import { causeOf, isExpectedStatus, type Outcome, type Requester, type SentRequest } from "./requester.ts";

/** A request that is sent over and over. */
export interface Http2Request {
  /** Scheme, host and port. */
  readonly origin: string;
  readonly headers: OutgoingHttpHeaders;
  readonly body: string | Uint8Array | undefined;
  /** The outcome of a complete response. `fields` are its headers and trailers. */
  judge(fields: IncomingHttpHeaders, bytes: number): Outcome;
}

/** The request of a plan. */
export function http2RequestOf({ request }: LoadPlan): Http2Request {
  const url = new URL(request.url);
  const headers = Object.entries(request.headers).map(([name, value]) => [name.toLowerCase(), value] as const);
  return {
    origin: url.origin,
    headers: {
      ...Object.fromEntries(headers),
      [constants.HTTP2_HEADER_METHOD]: request.method,
      [constants.HTTP2_HEADER_PATH]: `${url.pathname}${url.search}`,
    },
    body: request.body,
    judge(fields, bytes) {
      const status = Number(fields[constants.HTTP2_HEADER_STATUS]);
      return { status, bytes, isExpected: isExpectedStatus(status, request.expectedStatusCodes) };
    },
  };
}

/** Sends requests by HTTP/2 over at most `maxConnections` connections, in turn. A connection that ends is replaced. */
export class Http2Requester implements Requester {
  readonly capacity: number;
  readonly #request: Http2Request;
  readonly #insecureSkipTlsVerify: boolean;
  readonly #sessions: (Session | undefined)[];
  #next = 0;

  constructor({ request, maxConnections }: LoadPlan, sent: Http2Request) {
    this.#request = sent;
    this.#insecureSkipTlsVerify = request.insecureSkipTlsVerify;
    this.capacity = maxConnections * maxStreams;
    this.#sessions = Array.from({ length: maxConnections }, () => undefined);
  }

  send(onEnd: (outcome: Outcome) => void): SentRequest {
    const { headers, body } = this.#request;
    const session = this.#session();
    const stream = session.http2.request(headers, { endStream: body === undefined });
    if (body !== undefined) stream.end(body);
    followStream(stream, session, this.#request, onEnd);
    return { abort: () => stream.close(constants.NGHTTP2_CANCEL) };
  }

  async close(): Promise<void> {
    const open = this.#sessions.filter((session) => session !== undefined && !session.http2.destroyed);
    await Promise.all(
      open.map(
        (session) =>
          new Promise<void>((resolve) => {
            session?.http2.once("close", resolve);
            session?.http2.destroy();
          }),
      ),
    );
  }

  #session(): Session {
    const index = this.#next;
    this.#next = (index + 1) % this.#sessions.length;
    const found = this.#sessions[index];
    if (found !== undefined && !found.http2.closed && !found.http2.destroyed) return found;
    const session = new Session(connect(this.#request.origin, { rejectUnauthorized: !this.#insecureSkipTlsVerify }));
    this.#sessions[index] = session;
    return session;
  }
}

/** A connection, with the error that ended it. */
class Session {
  readonly http2: ClientHttp2Session;
  error: Error | undefined;

  constructor(http2: ClientHttp2Session) {
    this.http2 = http2;
    http2.on("error", (error) => {
      this.error = error;
    });
    // A server that goes away finishes the requests under way; new ones need a new connection.
    http2.on("goaway", () => http2.close());
  }
}

function followStream(
  stream: ClientHttp2Stream,
  session: Session,
  { judge }: Http2Request,
  onEnd: (outcome: Outcome) => void,
): void {
  let fields: IncomingHttpHeaders | undefined;
  let bytes = 0;
  let error: Error | undefined;
  let isComplete = false;
  stream.on("response", (headers) => {
    fields = headers;
  });
  stream.on("trailers", (trailers) => {
    fields = { ...fields, ...trailers };
  });
  stream.on("data", (chunk: Buffer) => {
    bytes += chunk.length;
  });
  stream.on("end", () => {
    isComplete = true;
  });
  stream.on("error", (cause) => {
    error = cause;
  });
  stream.on("close", () => {
    if (isComplete && error === undefined && fields !== undefined) {
      onEnd(judge(fields, bytes));
      return;
    }
    const cause = session.error ?? error;
    const status = fields === undefined ? {} : { status: Number(fields[constants.HTTP2_HEADER_STATUS]) };
    onEnd({ ...status, error: cause === undefined ? "Closed" : causeOf(cause), bytes, isExpected: false });
  });
}
