import { type DeepReadonly, statusError } from "@keelson/api-machinery";
import type { Clock, Timer } from "@keelson/api-machinery/time";
import type { RequestInfo } from "../endpoints/request-info.ts";
import type { UserInfo } from "../registry/served-resource.ts";
import { type Store, storageKey } from "../storage/store.ts";
import { flowControlGroup, type FlowSchemaObject, type PriorityLevelObject } from "./configuration.ts";
import { flowDistinguisher, matchesFlowSchema } from "./flow-schema.ts";
import { PriorityLevel, type PriorityLevelLimits, type Seat } from "./priority-level.ts";
import { StreamLimit } from "./stream-limit.ts";
import { shareSeats, smoothDemand } from "./seat-sharing.ts";

/** What {@link FlowController} takes. */
export interface FlowControllerOptions {
  readonly store: Pick<Store, "list" | "watch">;
  readonly clock: Clock;
  /** Seats shared by all limited levels in proportion to their shares. Default 200: fewer than upstream, as requests share one thread. */
  readonly seats?: number;
  /** How long a request may be queued. Default 15 s. */
  readonly maxWaitMs?: number;
}

/** Default of {@link FlowControllerOptions.seats}. */
const defaultSeats = 200;

/** The usage of a priority level. */
export interface LevelUsage {
  readonly occupied: number;
  /** Number of queued requests. */
  readonly waiting: number;
  /** The current limit of occupied seats, and the limit without lending and borrowing. */
  readonly seats: number;
  readonly nominalSeats: number;
}

/** An admitted request. */
export interface Admission extends Seat {
  /** Response headers that name the matching objects. */
  readonly headers: Readonly<Record<string, string>>;
  /** Whether the caller releases the admission only once the connection is closed, if the request switches its protocol. */
  readonly isStream?: true;
}

/** Subresources whose requests last as long as their client wants. They take no seat, but {@link StreamLimit} applies. */
const longRunningSubresources: ReadonlySet<string> = new Set(["attach", "exec", "log", "portforward", "proxy"]);

/** Whether a request lasts as long as its client wants: a watch, or a request to a subresource such as `log` or `proxy`. */
export function isLongRunning(info: RequestInfo): boolean {
  return info.isResource && (info.verb === "watch" || longRunningSubresources.has(info.subresource));
}

const free: Admission = { headers: {}, release: () => undefined };

const schemasPrefix = storageKey({ group: flowControlGroup, plural: "flowschemas" }, "", "");
const levelsPrefix = storageKey({ group: flowControlGroup, plural: "prioritylevelconfigurations" }, "", "");

interface Level {
  readonly uid: string;
  /** Undefined for an exempt level. */
  readonly limited: LimitedLevel | undefined;
}

interface LimitedLevel {
  readonly queues: PriorityLevel;
  /** By its shares, and how many of them it lends and borrows at most. */
  readonly seats: { readonly nominal: number; readonly lendable: number; readonly borrowable: number };
  readonly queuing: PriorityLevelLimits["queuing"];
  /** Smoothed demand. */
  demand: number;
}

/** How often levels lend and borrow seats. Same as kube-apiserver. */
const sharingPeriodMs = 10_000;

/** Below this smoothed demand, a level counts as idle. */
const idleDemand = 0.1;

/**
 * API Priority and Fairness: classifies requests by the FlowSchemas in the store and limits their concurrency per priority level. While
 * there is demand, levels lend idle seats to each other every 10 s.
 */
export class FlowController {
  readonly #options: FlowControllerOptions;
  readonly #levels = new Map<string, Level>();
  readonly #streams = new StreamLimit();
  readonly #watches: readonly { close(): void }[];
  #schemas: readonly DeepReadonly<FlowSchemaObject>[] = [];
  #sharing: Timer | undefined;

  constructor(options: FlowControllerOptions) {
    this.#options = options;
    const { store } = options;
    this.#reload();
    this.#watches = [schemasPrefix, levelsPrefix].map((prefix) =>
      store.watch(prefix, store.list(prefix).revision, () => this.#reload()),
    );
  }

  close(): void {
    this.#sharing?.cancel();
    for (const watch of this.#watches) watch.close();
  }

  /**
   * Waits until the request may run. The caller releases the admission when the response is sent.
   *
   * **Errors**: `TooManyRequests` if its level has no seat and no room in its queue, after waiting too long, or if the user has too many
   * streams open.
   */
  async admit(user: UserInfo, info: RequestInfo, seats: number, signalOf?: () => AbortSignal): Promise<Admission> {
    const schema = this.#schemas.find((candidate) => matchesFlowSchema(candidate, user, info));
    const level = schema && this.#levels.get(schema.spec.priorityLevelConfiguration.name);
    if (schema === undefined || level === undefined) return free;
    if (info.isResource && longRunningSubresources.has(info.subresource)) {
      return level.limited === undefined ? free : { headers: {}, isStream: true, release: this.#streams.open(user.username) };
    }
    const headers = {
      "x-kubernetes-pf-flowschema-uid": schema.metadata.uid ?? "",
      "x-kubernetes-pf-prioritylevel-uid": level.uid,
    };
    if (level.limited === undefined) return { ...free, headers };
    this.#sharing ??= this.#scheduleSharing();
    const flow = `${schema.metadata.name ?? ""}/${flowDistinguisher(schema, user, info)}`;
    const seat = await level.limited.queues.acquire(flow, seats, signalOf);
    if (typeof seat === "string") {
      throw statusError("TooManyRequests", "Too many requests, please try again later.", { retryAfterSeconds: 1 });
    }
    return { headers, release: () => seat.release() };
  }

  /** Usage by level, for metrics. Exempt levels are not counted. */
  usage(): ReadonlyMap<string, LevelUsage> {
    return new Map(
      [...this.#levels].flatMap(([name, { limited }]) => {
        if (limited === undefined) return [];
        const { occupied, waiting, seats } = limited.queues;
        return [[name, { occupied, waiting, seats, nominalSeats: limited.seats.nominal }] as const];
      }),
    );
  }

  #scheduleSharing(): Timer {
    const { clock } = this.#options;
    return clock.setTimer(sharingPeriodMs, () => this.#share(), { background: true });
  }

  /** Divides the seats by the demand of the last period. Stops once all levels are idle and have their nominal seats again. */
  #share(): void {
    const levels = [...this.#levels.values()].flatMap(({ limited }) => (limited === undefined ? [] : [limited]));
    const sharing = levels.map((level) => {
      const summary = level.queues.takeDemand();
      level.demand = smoothDemand(level.demand, summary);
      return { ...level.seats, peak: summary.peak, demand: level.demand };
    });
    const isIdle = sharing.every(({ demand }) => demand < idleDemand);
    const seats = isIdle ? [] : shareSeats(this.#totalSeats, sharing);
    for (const [index, { queues, queuing, seats: own }] of levels.entries()) {
      queues.configure({ seats: seats[index] ?? own.nominal, queuing });
    }
    this.#sharing = isIdle ? undefined : this.#scheduleSharing();
  }

  get #totalSeats(): number {
    return this.#options.seats ?? defaultSeats;
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
    const { clock, maxWaitMs = 15_000 } = this.#options;
    const { name = "", uid = "" } = metadata;
    if (spec.type === "Exempt") {
      this.#levels.set(name, { uid, limited: undefined });
      return;
    }
    const nominal = Math.max(1, Math.ceil((this.#totalSeats * sharesOf(spec)) / Math.max(1, allShares)));
    const { lendablePercent = 0, borrowingLimitPercent } = spec.limited ?? {};
    const seats = {
      nominal,
      lendable: Math.round((nominal * lendablePercent) / 100),
      borrowable: borrowingLimitPercent === undefined ? this.#totalSeats : Math.round((nominal * borrowingLimitPercent) / 100),
    };
    const queuing = queuingOf(spec);
    const known = this.#levels.get(name)?.limited;
    // The next sharing decides whether it borrows again.
    known?.queues.configure({ seats: nominal, queuing });
    const queues = known?.queues ?? new PriorityLevel(clock, { seats: nominal, queuing }, maxWaitMs);
    this.#levels.set(name, { uid, limited: { queues, seats, queuing, demand: known?.demand ?? 0 } });
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
