import type { Clock } from "@keelson/api-machinery/time";
import type { Client } from "@keelson/client";
import { ensureRobotAuthority, readRobotAuthority } from "./authority-store.ts";
import type { RobotAuthority } from "./robot-authority.ts";

/** Options of a {@link LazyAuthority}. */
export interface LazyAuthorityOptions {
  readonly client: Client;
  readonly namespace: string;
  readonly clock: Clock;
  readonly fieldManager: string;
}

/**
 * The robots' authority, loaded or created when it is first needed: most operators never sign a certificate. Replaces the key that signs messages
 * when it is due.
 */
export class LazyAuthority {
  readonly #options: LazyAuthorityOptions;
  #loading: Promise<RobotAuthority> | undefined;
  #current: RobotAuthority | undefined;

  constructor(options: LazyAuthorityOptions) {
    this.#options = options;
  }

  /** The authority if it is loaded and its signing key is not due for replacement. */
  get current(): RobotAuthority | undefined {
    const authority = this.#current;
    return authority !== undefined && this.#options.clock.now() < authority.rotateAt ? authority : undefined;
  }

  /** Loads the authority. **Errors**: see `ensureRobotAuthority`; the next call tries again. */
  async get(): Promise<RobotAuthority> {
    const { current } = this;
    if (current !== undefined) return current;
    this.#loading ??= this.#load();
    try {
      return await this.#loading;
    } finally {
      this.#loading = undefined;
    }
  }

  /** Reads the authority after its Secret has changed. Undefined if there is none. **Errors**: as `readRobotAuthority`. */
  async reload(): Promise<RobotAuthority | undefined> {
    const { client, namespace } = this.#options;
    const authority = await readRobotAuthority(client, namespace);
    return authority === undefined ? undefined : this.#adopt(authority);
  }

  async #load(): Promise<RobotAuthority> {
    const { client, namespace, clock, fieldManager } = this.#options;
    return this.#adopt(await ensureRobotAuthority({ client, namespace, now: clock.now(), fieldManager }));
  }

  /** Of two concurrent reads, the newer one counts. */
  #adopt(authority: RobotAuthority): RobotAuthority {
    const isOlder = this.#current !== undefined && authority.state.version < this.#current.state.version;
    if (!isOlder || this.#current === undefined) this.#current = authority;
    return this.#current;
  }
}
