import { type DeepReadonly, statusError } from "@keelson/api-machinery";
import type { Clock } from "@keelson/api-machinery/time";
import type { RequestInfo } from "../endpoints/request-info.ts";
import type { UserInfo } from "../registry/served-resource.ts";
import { type Store, storageKey } from "../storage/store.ts";
import { flowControlGroup, type FlowSchemaObject, type PriorityLevelObject } from "./configuration.ts";
import { flowDistinguisher, matchesFlowSchema } from "./flow-schema.ts";
import { PriorityLevel, type PriorityLevelLimits, type Seat } from "./priority-level.ts";

/** What {@link FlowController} takes. */
export interface FlowControllerOptions {
  readonly store: Pick<Store, "list" | "watch">;
  readonly clock: Clock;
  /** Seats shared by all limited levels in proportion to their shares. Default 200: fewer than upstream, as requests share one thread. */
  readonly seats?: number;
  /** How long a request may be queued. Default 15 s. */
  readonly maxWaitMs?: number;
}

/** An admitted request. */
export interface Admission extends Seat {
  /** Response headers that name the matching objects. */
  readonly headers: Readonly<Record<string, string>>;
}

/** Subresources whose requests last as long as their client wants. They are not limited. */
export const longRunningSubresources: ReadonlySet<string> = new Set(["attach", "exec", "log", "portforward", "proxy"]);
const free: Admission = { headers: {}, release: () => undefined };

const schemasPrefix = storageKey({ group: flowControlGroup, plural: "flowschemas" }, "", "");
const levelsPrefix = storageKey({ group: flowControlGroup, plural: "prioritylevelconfigurations" }, "", "");

interface Level {
  readonly uid: string;
  /** Undefined for an exempt level. */
  readonly queues: PriorityLevel | undefined;
}

/**
 * API Priority and Fairness: classifies requests by the FlowSchemas in the store and limits their concurrency per priority level. Levels do
 * not lend seats to each other.
 */
export class FlowController {
  readonly #options: FlowControllerOptions;
  readonly #levels = new Map<string, Level>();
  readonly #watches: readonly { close(): void }[];
  #schemas: readonly DeepReadonly<FlowSchemaObject>[] = [];

  constructor(options: FlowControllerOptions) {
    this.#options = options;
    const { store } = options;
    this.#reload();
    this.#watches = [schemasPrefix, levelsPrefix].map((prefix) =>
      store.watch(prefix, store.list(prefix).revision, () => this.#reload()),
    );
  }

  close(): void {
    for (const watch of this.#watches) watch.close();
  }

  /**
   * Waits until the request may run. The caller releases the admission when the response is sent.
   *
   * **Errors**: `TooManyRequests` if its level has no seat and no room in its queue, or after waiting too long.
   */
  async admit(user: UserInfo, info: RequestInfo, seats: number, signalOf?: () => AbortSignal): Promise<Admission> {
    if (info.isResource && longRunningSubresources.has(info.subresource)) return free;
    const schema = this.#schemas.find((candidate) => matchesFlowSchema(candidate, user, info));
    const level = schema && this.#levels.get(schema.spec.priorityLevelConfiguration.name);
    if (schema === undefined || level === undefined) return free;
    const headers = {
      "x-kubernetes-pf-flowschema-uid": schema.metadata.uid ?? "",
      "x-kubernetes-pf-prioritylevel-uid": level.uid,
    };
    if (level.queues === undefined) return { ...free, headers };
    const flow = `${schema.metadata.name ?? ""}/${flowDistinguisher(schema, user, info)}`;
    const seat = await level.queues.acquire(flow, seats, signalOf);
    if (typeof seat === "string") {
      throw statusError("TooManyRequests", "Too many requests, please try again later.", { retryAfterSeconds: 1 });
    }
    return { headers, release: () => seat.release() };
  }

  /** Occupied seats and queued requests by level, for metrics. Exempt levels are not counted. */
  usage(): ReadonlyMap<string, { readonly occupied: number; readonly waiting: number }> {
    return new Map(
      [...this.#levels].flatMap(([name, { queues }]) =>
        queues === undefined ? [] : [[name, { occupied: queues.occupied, waiting: queues.waiting }] as const],
      ),
    );
  }

  #reload(): void {
    const { store } = this.#options;
    const schemas = store.list(schemasPrefix).items.map(({ object }) => object as DeepReadonly<FlowSchemaObject>);
    const levels = store.list(levelsPrefix).items.map(({ object }) => object as DeepReadonly<PriorityLevelObject>);
    this.#schemas = schemas.sort(
      (a, b) => precedence(a) - precedence(b) || ((a.metadata.name ?? "") < (b.metadata.name ?? "") ? -1 : 1),
    );
    const shares = levels.reduce((sum, { spec }) => sum + sharesOf(spec), 0);
    const names = new Set(levels.map(({ metadata }) => metadata.name ?? ""));
    for (const name of this.#levels.keys()) if (!names.has(name)) this.#levels.delete(name);
    for (const level of levels) this.#configure(level, shares);
  }

  #configure({ metadata, spec }: DeepReadonly<PriorityLevelObject>, allShares: number): void {
    const { clock, seats = 200, maxWaitMs = 15_000 } = this.#options;
    const { name = "", uid = "" } = metadata;
    if (spec.type === "Exempt") {
      this.#levels.set(name, { uid, queues: undefined });
      return;
    }
    const limits: PriorityLevelLimits = {
      seats: Math.max(1, Math.ceil((seats * sharesOf(spec)) / Math.max(1, allShares))),
      queuing: queuingOf(spec),
    };
    const known = this.#levels.get(name)?.queues;
    known?.configure(limits);
    this.#levels.set(name, { uid, queues: known ?? new PriorityLevel(clock, limits, maxWaitMs) });
  }
}

function precedence({ spec }: DeepReadonly<FlowSchemaObject>): number {
  return spec.matchingPrecedence ?? 1_000;
}

function sharesOf(spec: DeepReadonly<PriorityLevelObject>["spec"]): number {
  return spec.type === "Exempt" ? (spec.exempt?.nominalConcurrencyShares ?? 0) : (spec.limited?.nominalConcurrencyShares ?? 30);
}

function queuingOf({ limited }: DeepReadonly<PriorityLevelObject>["spec"]): PriorityLevelLimits["queuing"] {
  if (limited?.limitResponse?.type !== "Queue") return undefined;
  const { queues = 64, handSize = 8, queueLengthLimit = 50 } = limited.limitResponse.queuing ?? {};
  return { queues, handSize, queueLengthLimit };
}
