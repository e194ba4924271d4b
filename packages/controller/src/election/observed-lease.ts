import type { DeepReadonly } from "@keelson/api-machinery";
import type { LeaseObject } from "@keelson/api-machinery/kinds";
import type { Clock } from "@keelson/api-machinery/time";
import type { ProcessInspector } from "./holder-process.ts";

/** Time for the server to finish requests that the previous leader sent just before it exited. */
const handoverMs = 500;

/** The process that holds the lease and its identity, separated by a space. */
const holderProcessAnnotation = "keelson.dev/holder-process";

/** Options of {@link ObservedLease}. */
export interface ObservedLeaseOptions {
  readonly clock: Clock;
  readonly processes: ProcessInspector;
  /** Duration of a lease that does not say its own. */
  readonly leaseDurationMs: number;
}

/**
 * The last state of a lease, and when this process may take it.
 *
 * Clocks of other machines are not trusted: what counts is how long this process has seen the same state.
 */
export class ObservedLease {
  readonly #options: ObservedLeaseOptions;
  #seen: { readonly lease: DeepReadonly<LeaseObject>; readonly at: number } | undefined;
  /** A holder that has exited, and when that was found. */
  #exited: { readonly holder: string; readonly at: number } | undefined;

  constructor(options: ObservedLeaseOptions) {
    this.#options = options;
  }

  get lease(): DeepReadonly<LeaseObject> | undefined {
    return this.#seen?.lease;
  }

  /** The holder's identity; `undefined` if the lease is released or has not been read. */
  get holder(): string | undefined {
    return this.#seen?.lease.spec?.holderIdentity || undefined;
  }

  /** Whether {@link takeoverInMs} found that the holder has exited. */
  get hasHolderExited(): boolean {
    return this.#exited !== undefined;
  }

  observe(lease: DeepReadonly<LeaseObject>): void {
    if (this.#seen !== undefined && this.#seen.lease.metadata.resourceVersion === lease.metadata.resourceVersion) return;
    this.#seen = { lease, at: this.#options.clock.monotonic() };
  }

  /** Milliseconds until another process than the holder may take the lease; infinite before the lease has been read. */
  takeoverInMs(): number {
    if (this.#seen === undefined) return Number.POSITIVE_INFINITY;
    const { lease, at } = this.#seen;
    // The holder's own duration: it may be configured differently.
    const seconds = lease.spec?.leaseDurationSeconds ?? 0;
    const durationMs = seconds > 0 ? seconds * 1000 : this.#options.leaseDurationMs;
    const now = this.#options.clock.monotonic();
    const expiresInMs = at + durationMs - now;
    const exitedAt = this.#holderExitedAt(lease, now);
    return exitedAt === undefined ? expiresInMs : Math.min(expiresInMs, exitedAt + handoverMs - now);
  }

  /** Annotations of a lease that this process holds under `identity`. */
  annotations(identity: string): Readonly<Record<string, string>> {
    const process = this.#options.processes.self();
    return process === undefined ? {} : { [holderProcessAnnotation]: `${process} ${identity}` };
  }

  /** When this process found that the holder has exited; `undefined` while it may be running. */
  #holderExitedAt({ metadata, spec }: DeepReadonly<LeaseObject>, now: number): number | undefined {
    const holder = metadata.annotations?.[holderProcessAnnotation] ?? "";
    const space = holder.indexOf(" ");
    // An implementation that does not know the annotation keeps it when it takes the lease.
    if (space < 0 || holder.slice(space + 1) !== spec?.holderIdentity) {
      this.#exited = undefined;
      return undefined;
    }
    if (this.#exited?.holder !== holder) {
      this.#exited = this.#options.processes.hasExited(holder.slice(0, space)) ? { holder, at: now } : undefined;
    }
    return this.#exited?.at;
  }
}
