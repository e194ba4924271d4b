import type { Timer } from "@keelson/api-machinery/time";
import type { PinnedState } from "../../storage/store.ts";
import type { Call } from "../call.ts";

/** How long a state is held for a client that does not read: a held state keeps the database from reusing its pages. */
const maxIdleMs = 5_000;

/** The state of a prefix at one revision, for reads with pauses of any length. It is pinned only while they are short. */
export class HeldState implements Disposable {
  readonly #call: Pick<Call, "store" | "clock">;
  readonly #prefix: string;
  readonly #revision: number;
  #state: PinnedState | undefined;
  #timer: Timer | undefined;

  constructor(call: Pick<Call, "store" | "clock">, prefix: string, revision: number) {
    this.#call = call;
    this.#prefix = prefix;
    this.#revision = revision;
  }

  /** Valid until the next turn. Rejects with `Expired` if the history does not reach back any more. */
  async get(): Promise<PinnedState> {
    this.#timer?.cancel();
    this.#state ??= await this.#call.store.pinAt(this.#prefix, this.#revision);
    this.#timer = this.#call.clock.setTimer(maxIdleMs, () => this[Symbol.dispose](), { background: true });
    return this.#state;
  }

  [Symbol.dispose](): void {
    this.#timer?.cancel();
    this.#state?.[Symbol.dispose]();
    this.#state = undefined;
  }
}
