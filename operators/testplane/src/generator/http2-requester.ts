import { type ClientHttp2Session, type ClientHttp2Stream, connect, constants, type OutgoingHttpHeaders } from "node:http2";
import { type LoadPlan, maxStreams } from "./load-plan.ts";
import { causeOf, isExpectedStatus, type Outcome, type Requester, type SentRequest } from "./requester.ts";

/** Sends requests by HTTP/2 over at most `maxConnections` connections, in turn. A connection that ends is replaced. */
export class Http2Requester implements Requester {
  readonly capacity: number;
  readonly #plan: LoadPlan;
  readonly #url: URL;
  readonly #headers: OutgoingHttpHeaders;
  readonly #sessions: (Session | undefined)[];
  #next = 0;

  constructor(plan: LoadPlan) {
    const { request, maxConnections } = plan;
    this.#plan = plan;
    this.#url = new URL(request.url);
    this.capacity = maxConnections * maxStreams;
    this.#sessions = Array.from({ length: maxConnections }, () => undefined);
    const headers = Object.entries(request.headers).map(([name, value]) => [name.toLowerCase(), value] as const);
    this.#headers = {
      ...Object.fromEntries(headers),
      [constants.HTTP2_HEADER_METHOD]: request.method,
      [constants.HTTP2_HEADER_PATH]: `${this.#url.pathname}${this.#url.search}`,
    };
  }

  send(onEnd: (outcome: Outcome) => void): SentRequest {
    const { body, expectedStatusCodes } = this.#plan.request;
    const session = this.#session();
    const stream = session.http2.request(this.#headers, { endStream: body === undefined });
    if (body !== undefined) stream.end(body);
    followStream(stream, session, expectedStatusCodes, onEnd);
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
    const session = new Session(connect(this.#url.origin, { rejectUnauthorized: !this.#plan.request.insecureSkipTlsVerify }));
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
  expected: readonly number[] | undefined,
  onEnd: (outcome: Outcome) => void,
): void {
  let [status, bytes] = [0, 0];
  let error: Error | undefined;
  let isComplete = false;
  stream.on("response", (headers) => {
    status = Number(headers[constants.HTTP2_HEADER_STATUS]);
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
    if (isComplete && error === undefined && status !== 0) {
      onEnd({ status, bytes, isExpected: isExpectedStatus(status, expected) });
      return;
    }
    const cause = session.error ?? error;
    const seen = status === 0 ? {} : { status };
    onEnd({ ...seen, error: cause === undefined ? "Closed" : causeOf(cause), bytes, isExpected: false });
  });
}
