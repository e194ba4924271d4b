import { X509Certificate } from "node:crypto";
import { mkdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { parseJsonObject } from "@keelson/api-machinery";
import type { KeyPair } from "@keelson/api-machinery/certificates";
import type { Clock, Timer } from "@keelson/api-machinery/time";
import type { Credentials, CredentialSource } from "@keelson/client";
import type { Logger } from "@keelson/controller";
import { writeFileAtomic } from "@keelson/execution/files";

const dayMs = 24 * 60 * 60 * 1000;
/** Part of its validity after which a certificate is renewed. */
const renewAfter = 0.8;
const retryMs = 60 * 60 * 1000;
const minWaitMs = 60 * 1000;

/** Options of {@link NodeCredentials}. */
export interface NodeCredentialsOptions {
  /** Directory of the certificate and its key. */
  readonly folder: string;
  readonly nodeName: string;
  readonly clock: Clock;
  readonly log: Logger;
}

/** The client certificate of a node, stored on this machine and renewed before it expires. */
export class NodeCredentials implements CredentialSource {
  readonly #options: NodeCredentialsOptions;
  #pair: KeyPair | undefined;
  #timer: Timer | undefined;
  #isStopped = false;

  constructor(options: NodeCredentialsOptions) {
    this.#options = options;
  }

  /** Loads the stored certificate. Returns false if there is none for this node that is still valid. */
  async load(): Promise<boolean> {
    const { folder, nodeName, clock } = this.#options;
    await mkdir(folder, { recursive: true, mode: 0o700 });
    const stored = parseJsonObject(await readFile(this.#file, "utf8").catch(() => ""));
    const { certificate, key } = stored ?? {};
    if (typeof certificate !== "string" || typeof key !== "string") return false;
    const pair = { certificate, key };
    if (commonNameOf(pair) !== `system:node:${nodeName}` || validity(pair).notAfter <= clock.now()) return false;
    this.#pair = pair;
    return true;
  }

  /** Stores a new certificate and uses it from now on. **Errors**: if it cannot be parsed. */
  async replace({ certificate, key }: KeyPair): Promise<void> {
    validity({ certificate, key });
    await writeFileAtomic(this.#file, JSON.stringify({ certificate, key }), { durable: true });
    this.#pair = { certificate, key };
  }

  get(): Promise<Credentials> {
    const { certificate = "", key = "" } = this.#pair ?? {};
    return Promise.resolve({ clientCertificate: certificate, clientKey: key });
  }

  /** Calls `request` for a new certificate after four fifths of the validity of each, until {@link stop}. */
  renewBy(request: () => Promise<KeyPair>): void {
    const { clock, log } = this.#options;
    const wait = (ms: number): void => {
      if (this.#isStopped) return;
      // Checked at least daily: the clock may jump.
      this.#timer = clock.setTimer(Math.min(Math.max(ms, minWaitMs), dayMs), () => void renew(), { background: true });
    };
    const renew = async (): Promise<void> => {
      const due = this.#renewAt - clock.now();
      if (due > 0) return wait(due);
      try {
        await this.replace(await request());
        wait(this.#renewAt - clock.now());
      } catch (error) {
        log.warn({ err: error }, "could not renew the node's certificate; retrying");
        wait(retryMs);
      }
    };
    void renew();
  }

  stop(): void {
    this.#isStopped = true;
    this.#timer?.cancel();
  }

  get #file(): string {
    return join(this.#options.folder, "node.json");
  }

  get #renewAt(): number {
    if (this.#pair === undefined) return 0;
    const { notBefore, notAfter } = validity(this.#pair);
    return notBefore + (notAfter - notBefore) * renewAfter;
  }
}

function commonNameOf({ certificate }: KeyPair): string | undefined {
  try {
    const { CN } = new X509Certificate(certificate).toLegacyObject().subject;
    return typeof CN === "string" ? CN : undefined;
  } catch {
    return undefined;
  }
}

function validity({ certificate }: KeyPair): { readonly notBefore: number; readonly notAfter: number } {
  const { validFrom, validTo } = new X509Certificate(certificate);
  return { notBefore: Date.parse(validFrom), notAfter: Date.parse(validTo) };
}
