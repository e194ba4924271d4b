import { readFile } from "node:fs/promises";
import { isStatusError } from "@keelson/api-machinery";
import type { KeyPair } from "@keelson/api-machinery/certificates";
import { ConfigMap } from "@keelson/api-machinery/kinds";
import type { Clock, Timer } from "@keelson/api-machinery/time";
import type { Client } from "@keelson/client";
import type { Logger } from "@keelson/controller";

/** TLS material of the fast path, in PEM. */
export interface TlsMaterial extends KeyPair {
  /** The authorities of client certificates; undefined: client certificates do not authenticate. */
  readonly clientAuthorities: string | undefined;
}

/** Options of {@link ServingTls}. */
export interface ServingTlsOptions {
  readonly certificate: () => Promise<KeyPair>;
  readonly client: Client;
  readonly clock: Clock;
  readonly log: Logger;
}

const refreshMs = 60_000;

/** The certificate of a server from files, which another program may replace. */
export async function readCertificateFiles(certificateFile: string, keyFile: string): Promise<KeyPair> {
  const [certificate, key] = await Promise.all([readFile(certificateFile, "utf8"), readFile(keyFile, "utf8")]);
  return { certificate, key };
}

/** Loads the certificate of the server and the authority of client certificates, and follows their changes. */
export class ServingTls {
  readonly #options: ServingTlsOptions;
  #timer: Timer | undefined;
  #isStopped = false;
  #isForbidden = false;

  constructor(options: ServingTlsOptions) {
    this.#options = options;
  }

  /** **Errors**: rejects if no usable certificate is available. */
  async load(): Promise<TlsMaterial> {
    const [pair, clientAuthorities] = await Promise.all([this.#options.certificate(), this.#clientAuthorities()]);
    return { ...pair, clientAuthorities };
  }

  /** Loads again each minute, and calls `apply` after a change. Errors are logged, and the last material stays in use. */
  follow(first: TlsMaterial, apply: (material: TlsMaterial) => void): void {
    let current = JSON.stringify(first);
    const refresh = async (): Promise<void> => {
      try {
        const material = await this.load();
        const next = JSON.stringify(material);
        if (next === current || this.#isStopped) return;
        apply(material);
        current = next;
      } catch (error) {
        this.#options.log.warn({ err: error }, "could not reload the certificate of the fast path; retrying");
      }
    };
    const schedule = (): void => {
      if (this.#isStopped) return;
      this.#timer = this.#options.clock.setTimer(refreshMs, () => void refresh().then(schedule), { background: true });
    };
    schedule();
  }

  stop(): void {
    this.#isStopped = true;
    this.#timer?.cancel();
  }

  /** As extension API servers find them. Clusters without this ConfigMap, or where it cannot be read, have tokens only. */
  async #clientAuthorities(): Promise<string | undefined> {
    const key = { namespace: "kube-system", name: "extension-apiserver-authentication" };
    try {
      const { data } = await this.#options.client.get(ConfigMap, key);
      this.#isForbidden = false;
      // Empty in clusters without client certificates.
      return data?.["client-ca-file"] || undefined;
    } catch (error) {
      const code = isStatusError(error) ? error.status.code : undefined;
      if (code !== 403 && code !== 404) throw error;
      if (code === 403 && !this.#isForbidden)
        this.#options.log.warn(
          { err: error },
          `cannot read ConfigMap ${key.namespace}/${key.name}; client certificates are not accepted`,
        );
      this.#isForbidden = code === 403;
      return undefined;
    }
  }
}
