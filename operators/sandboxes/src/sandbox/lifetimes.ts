import type { Logger } from "@keelson/controller";
import type { Driver, Program } from "@keelson/execution";
import type { Clock } from "@keelson/api-machinery/time";
import type { SandboxStatus } from "../protocol/protocol.ts";
import { Activity } from "./activity.ts";
import { type Expiries, openExpiries } from "./expiries.ts";
import { isAlive, requestedExpiry } from "./sandbox-program.ts";

/** Options of {@link Lifetimes}. */
export interface LifetimesOptions {
  readonly driver: Driver;
  readonly clock: Clock;
  readonly log: Logger;
  /** File with changed expiry times. */
  readonly expiryFile: string;
  /** Called when a reported time or state has changed. */
  readonly onChange: () => void;
}

/** When the sandboxes of an agent end, and whether they are paused or idle. */
export class Lifetimes {
  readonly #options: LifetimesOptions;
  readonly #expiries: Expiries;
  readonly #activity: Activity;
  /** Sandboxes that are being stopped because they expired: too late for a renewal. */
  readonly #expired = new Set<string>();

  constructor(options: LifetimesOptions) {
    const { clock, log, expiryFile, onChange } = options;
    this.#options = options;
    this.#expiries = openExpiries({ file: expiryFile, clock, log, end: (sandboxId) => this.#end(sandboxId) });
    this.#activity = new Activity(clock, onChange);
  }

  /** Enforces the expiry of a sandbox from now on: that of its creation, or a later change. */
  follow(program: Program): void {
    if (isAlive(program)) this.#expiries.adopt(program.id, requestedExpiry(program));
  }

  /** Sets the expiry of a sandbox; null: never. False if it has exited or has expired. */
  async expire(sandboxId: string, expiresAtMs: number | null): Promise<boolean> {
    if (this.#findRunning(sandboxId) === undefined) return false;
    await this.#expiries.set(sandboxId, expiresAtMs ?? undefined);
    this.#options.onChange();
    return true;
  }

  /** Freezes a sandbox; it does not expire until it is resumed. False if it has exited. **Errors**: `ExecutionError` `Unsupported`. */
  async pause(sandboxId: string): Promise<boolean> {
    const program = this.#findRunning(sandboxId);
    if (program === undefined) return false;
    await program.pause();
    await this.#expiries.set(sandboxId, undefined);
    this.#options.onChange();
    return true;
  }

  /** Lets a paused sandbox continue, with this expiry. False if it has exited. */
  async resume(sandboxId: string, expiresAtMs: number | null): Promise<boolean> {
    const program = this.#findRunning(sandboxId);
    if (program === undefined) return false;
    // The expiry comes first: a crash in between leaves it paused.
    await this.#expiries.set(sandboxId, expiresAtMs ?? undefined);
    this.#activity.touch(sandboxId);
    await program.resume();
    this.#options.onChange();
    return true;
  }

  /** Registers a use of a sandbox, which is not idle until the returned function is called. */
  use(sandboxId: string): () => void {
    return this.#activity.begin(sandboxId);
  }

  /** What the agent reports about the times of a sandbox. */
  statusOf(program: Program): Pick<SandboxStatus, "expiresAtMs" | "paused" | "idleSinceMs"> {
    const expiresAtMs = this.#expiries.of(program.id) ?? null;
    if (program.isPaused) return { expiresAtMs, paused: true };
    const idleSinceMs = isAlive(program) ? this.#activity.idleSince(program.id) : undefined;
    return { expiresAtMs, ...(idleSinceMs !== undefined && { idleSinceMs }) };
  }

  /** Removes what is known of a deleted sandbox. */
  async forget(sandboxId: string): Promise<void> {
    await this.#expiries.forget(sandboxId);
    this.#expired.delete(sandboxId);
    this.#activity.forget(sandboxId);
  }

  /** Stops enforcing expiries. */
  stop(): void {
    this.#expiries.stop();
  }

  /** The program of a sandbox, unless it has exited or has expired. */
  #findRunning(sandboxId: string): Program | undefined {
    const program = this.#options.driver.get(sandboxId);
    return program === undefined || !isAlive(program) || this.#expired.has(sandboxId) ? undefined : program;
  }

  /** Stops an expired sandbox. Time does not count while it is paused. */
  async #end(sandboxId: string): Promise<void> {
    const program = this.#findRunning(sandboxId);
    if (program === undefined || program.isPaused) return;
    this.#options.log.info({ sandboxId }, "stopping an expired sandbox that the operator did not stop");
    this.#expired.add(sandboxId);
    await program.stop();
  }
}
