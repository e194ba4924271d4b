import type { Clock } from "@keelson/api-machinery/time";
import type { ListOutcome, PipelineRequest } from "../endpoints/outcome.ts";
import { ignoresLimit } from "../endpoints/read/read.ts";
import { type RequestInfo, requestInfo } from "../endpoints/request-info.ts";
import { type Admission, isLongRunning } from "../flowcontrol/flow-controller.ts";
import { WorkEstimator } from "../flowcontrol/work-estimate.ts";
import type { HttpServerOptions } from "./server/http-server-options.ts";
import type { Target } from "./request-target.ts";

/** Items of a list whose size is measured. */
const sampledItems = 20;

/** Admits requests through priority and fairness, and reports how long they took. */
export class RequestAccounting {
  readonly #clock: Clock;
  readonly #flow: HttpServerOptions["flow"];
  readonly #onRequest: HttpServerOptions["onRequest"];
  readonly #estimator = new WorkEstimator();

  constructor({ clock, flow, onRequest }: Pick<HttpServerOptions, "clock" | "flow" | "onRequest">) {
    this.#clock = clock;
    this.#flow = flow;
    this.#onRequest = onRequest;
  }

  /**
   * Waits for a seat. The caller holds it until the response is sent, which bounds the memory of responses as well. Returns undefined if
   * concurrency is unlimited or the path is malformed.
   */
  async admit(request: PipelineRequest): Promise<Admission | undefined> {
    const flow = this.#flow;
    const { info } = request;
    if (flow === undefined || info === undefined) return undefined;
    const query = request.query ?? {};
    const seats = this.#estimator.seatsOf(info, ignoresLimit(query) ? undefined : query["limit"]);
    return flow.admit(request.user, info, seats, () => request.signal ?? new AbortController().signal);
  }

  /** Reports a request that started at `start` and ended now. `known` is what {@link attributesOf} returns for it. */
  record(method: string, { path, query }: Target, known: RequestInfo | undefined, code: number, start: number): void {
    const info = this.#onRequest && (known ?? attributesOf({ method, path, query }));
    if (info === undefined) return;
    this.#onRequest?.(info, code, isLongRunning(info) ? undefined : this.#clock.now() - start);
  }

  /** Records the size of a list without pages, from which later lists of the kind are estimated. */
  recordSize(request: PipelineRequest, { items, remaining, listMeta }: ListOutcome): void {
    const { info } = request;
    if (info === undefined || listMeta.continue !== undefined) return;
    const sample = items.slice(0, sampledItems);
    const bytes = sample.reduce((sum, item) => sum + item.bytes.length, 0);
    const count = items.length + (remaining?.count ?? 0);
    this.#estimator.record(info, { items: count, bytes: (bytes / Math.max(1, sample.length)) * count });
  }
}

/** The attributes of a request; undefined for a malformed path, which the pipeline rejects. */
export function attributesOf(request: Parameters<typeof requestInfo>[0]): RequestInfo | undefined {
  try {
    return requestInfo(request);
  } catch {
    return undefined;
  }
}
