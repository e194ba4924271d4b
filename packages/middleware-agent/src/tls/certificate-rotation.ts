import { type Clock, sleep } from "@keelson/api-machinery/time";
import type { Logger } from "@keelson/controller";
import { certificateHash, type Certificates, type CertificateSource } from "./certificates.ts";

/** Certificates of one server, and how it starts to use others. */
export interface RotatedServer {
  readonly folder: CertificateSource;
  /** Those that the server was started with. */
  readonly initial: Certificates;
  /** Makes the server use `folder.current` for later connections. It is repeated until it succeeds. */
  apply(): Promise<void> | void;
}

/** Options of {@link CertificateRotation}. */
export interface CertificateRotationOptions {
  /** The servers of the agent and of its program, in this order. */
  readonly servers: readonly RotatedServer[];
  readonly clock: Clock;
  readonly log: Logger;
  /** Called when {@link CertificateRotation.hash} has changed. */
  readonly onChange: () => void;
}

const retryMs = 1_000;

/** Makes servers use new certificates as soon as they are mounted, without a restart. */
export class CertificateRotation {
  readonly #options: CertificateRotationOptions;
  readonly #inForce: Certificates[];
  readonly #ending = new AbortController();

  constructor(options: CertificateRotationOptions) {
    this.#options = options;
    this.#inForce = options.servers.map(({ initial }) => initial);
    options.servers.forEach((server, index) => {
      let work = Promise.resolve();
      const next = (): void => {
        work = work.then(() => this.#rotate(server, index));
      };
      server.folder.onChange(next);
      work = this.#record(server, server.initial);
      next();
    });
  }

  /** Identifies the certificates in force, as `certificateHash` does. */
  get hash(): string {
    return certificateHash(this.#inForce);
  }

  stop(): void {
    this.#ending.abort();
    for (const { folder } of this.#options.servers) folder.close();
  }

  /** Records what a server uses. A failure only matters for its next start. */
  async #record({ folder }: Pick<RotatedServer, "folder">, inForce: Certificates): Promise<void> {
    try {
      await folder.accept?.(inForce);
    } catch (error) {
      this.#options.log.warn({ err: error }, "could not record the certificates in use");
    }
  }

  async #rotate({ folder, apply }: RotatedServer, index: number): Promise<void> {
    const { clock, log, onChange } = this.#options;
    const { signal } = this.#ending;
    while (!signal.aborted && this.#inForce[index] !== folder.current) {
      const next = folder.current;
      try {
        await apply();
        this.#inForce[index] = next;
        await this.#record({ folder }, next);
        onChange();
      } catch (error) {
        log.warn({ err: error }, "could not use new certificates; retrying");
        await sleep(clock, retryMs, signal).catch(() => undefined);
      }
    }
  }
}
