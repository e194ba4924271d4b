import { type Dispatcher, Pool } from "undici";
import type { LoadPlan } from "./load-plan.ts";
import { causeOf, isExpectedStatus, type Outcome, type Requester, type SentRequest } from "./requester.ts";

/** Sends requests by HTTP/1.1 over at most `maxConnections` persistent connections, one request per connection at a time. */
export class Http1Requester implements Requester {
  readonly capacity: number;
  readonly #pool: Pool;
  readonly #options: Dispatcher.DispatchOptions;
  readonly #expected: readonly number[] | undefined;

  constructor({ request, maxConnections, timeoutMs }: LoadPlan) {
    const url = new URL(request.url);
    this.capacity = maxConnections;
    this.#expected = request.expectedStatusCodes;
    this.#pool = new Pool(url.origin, {
      connections: maxConnections,
      // The run has a timeout for the whole request.
      ...{ headersTimeout: 0, bodyTimeout: 0, connectTimeout: timeoutMs },
      connect: { rejectUnauthorized: !request.insecureSkipTlsVerify, timeout: timeoutMs },
    });
    this.#options = {
      path: `${url.pathname}${url.search}`,
      method: request.method,
      headers: { ...request.headers },
      ...(request.body === undefined ? {} : { body: request.body }),
    };
  }

  send(onEnd: (outcome: Outcome) => void): SentRequest {
    const exchange = new Exchange(onEnd, this.#expected);
    this.#pool.dispatch(this.#options, exchange);
    return exchange;
  }

  async close(): Promise<void> {
    await this.#pool.destroy();
  }
}

/** One request and its response. */
class Exchange implements Dispatcher.DispatchHandler, SentRequest {
  readonly #onEnd: (outcome: Outcome) => void;
  readonly #expected: readonly number[] | undefined;
  #controller: Dispatcher.DispatchController | undefined;
  #isAborted = false;
  #status = 0;
  #bytes = 0;

  constructor(onEnd: (outcome: Outcome) => void, expected: readonly number[] | undefined) {
    this.#onEnd = onEnd;
    this.#expected = expected;
  }

  abort(): void {
    this.#isAborted = true;
    this.#controller?.abort(new Error("aborted"));
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller;
    // The request was aborted while it waited for a connection.
    if (this.#isAborted) controller.abort(new Error("aborted"));
  }

  onResponseStart(_: Dispatcher.DispatchController, status: number): void {
    this.#status = status;
  }

  onResponseData(_: Dispatcher.DispatchController, chunk: Buffer): void {
    this.#bytes += chunk.length;
  }

  onResponseEnd(): void {
    this.#onEnd({ status: this.#status, bytes: this.#bytes, isExpected: isExpectedStatus(this.#status, this.#expected) });
  }

  onResponseError(_: Dispatcher.DispatchController, error: Error): void {
    const status = this.#status === 0 ? {} : { status: this.#status };
    this.#onEnd({ ...status, error: causeOf(error), bytes: this.#bytes, isExpected: false });
  }
}
