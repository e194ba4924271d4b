import { X509Certificate } from "node:crypto";
import { isIP } from "node:net";
import { createCertificateAuthority, issueCertificate, type KeyPair } from "@keelson/api-machinery/certificates";
import type { Clock } from "@keelson/api-machinery/time";
import { pathKeyOf } from "./path-key.ts";
import {
  authorityLifeMs,
  type CertificateFacts,
  planCertificates,
  serverDefect,
  serverLifeMs,
  type WebhookCertificates,
} from "./certificate-plan.ts";

/** Where certificates are kept. */
export interface CertificateStore {
  /** Undefined if there are none, or none that can be read. */
  load(): Promise<StoredCertificates | undefined>;
  /** Saves certificates unless they have changed since `previous`. Resolves to whether they were saved. */
  save(next: WebhookCertificates, previous: StoredCertificates | undefined): Promise<boolean>;
}

/** Certificates with the version of their storage. */
export interface StoredCertificates {
  readonly version: string;
  /** Undefined if what is stored cannot be used. */
  readonly certificates: WebhookCertificates | undefined;
}

/** Certificates in use, and when to look at them again. */
export interface CurrentCertificates {
  readonly server: KeyPair;
  /** PEM of all trusted authorities. */
  readonly bundle: string;
  readonly renewAtMs: number;
  /** Keys of the paths, see `pathKeyOf`: the current one, then the next one. */
  readonly pathKeys: readonly [string, ...string[]];
}

/** Tolerates clock differences between machines. */
const backdateMs = 60 * 60 * 1000;
/** Each step is one write, so this many suffice even if another replica writes at the same time. */
const maxSteps = 20;

/** Creates certificates and renews them. Several replicas may do so at the same time: a write that finds a newer state starts over. */
export class CertificateManager {
  readonly #store: CertificateStore;
  readonly #clock: Pick<Clock, "now">;
  readonly #hosts: readonly string[];

  /** `hosts` are the names and addresses of the server. */
  constructor(store: CertificateStore, clock: Pick<Clock, "now">, hosts: readonly string[]) {
    this.#store = store;
    this.#clock = clock;
    this.#hosts = hosts;
  }

  /** Loads the certificates and takes all steps that are due. Rejects if the store fails. */
  async ensure(): Promise<CurrentCertificates> {
    for (let step = 0; step < maxSteps; step++) {
      const stored = await this.#store.load();
      const certificates = stored?.certificates;
      const plan = planCertificates(certificates && this.#factsOf(certificates), this.#clock.now());
      if (plan.kind === "keep" && certificates !== undefined) return currentOf(certificates, plan.renewAtMs);
      await this.#store.save(await this.#next(plan.kind, certificates), stored);
    }
    throw new CertificateConflictError(`the certificates changed during each of ${maxSteps} attempts to renew them`);
  }

  #factsOf(certificates: WebhookCertificates): CertificateFacts {
    const { authority, server, nextAuthority } = certificates;
    const leaf = new X509Certificate(server.certificate);
    const coversHosts = this.#hosts.every((host) => covers(leaf, host));
    return {
      authorityExpiresMs: Date.parse(new X509Certificate(authority.certificate).validTo),
      serverExpiresMs: Date.parse(leaf.validTo),
      stagedMs:
        nextAuthority === undefined
          ? undefined
          : Date.parse(new X509Certificate(nextAuthority.certificate).validFrom) + backdateMs,
      isServerValid: coversHosts && serverDefect(certificates, this.#clock.now()) === undefined,
    };
  }

  async #next(
    step: "keep" | "create" | "renew" | "stage" | "promote",
    current: WebhookCertificates | undefined,
  ): Promise<WebhookCertificates> {
    if (current === undefined || step === "create") {
      const authority = await this.#createAuthority();
      return { authority, server: await this.#issue(authority) };
    }
    if (step === "stage") return { ...current, nextAuthority: await this.#createAuthority() };
    const { authority, nextAuthority } = current;
    if (step === "promote" && nextAuthority !== undefined) {
      const server = await this.#issue(nextAuthority);
      return { authority: nextAuthority, previousAuthority: authority.certificate, server };
    }
    return { ...current, server: await this.#issue(authority) };
  }

  #createAuthority(): Promise<KeyPair> {
    const now = this.#clock.now();
    return createCertificateAuthority("keelson-webhook-ca", new Date(now - backdateMs), new Date(now + authorityLifeMs));
  }

  #issue(authority: KeyPair): Promise<KeyPair> {
    const now = this.#clock.now();
    return issueCertificate(authority, {
      commonName: this.#hosts[0] ?? "webhook",
      usage: "server",
      hosts: this.#hosts,
      notBefore: new Date(now - backdateMs),
      notAfter: new Date(now + serverLifeMs),
    });
  }
}

function covers(leaf: X509Certificate, host: string): boolean {
  return (isIP(host) === 0 ? leaf.checkHost(host, { wildcards: false }) : leaf.checkIP(host)) !== undefined;
}

/** Other writers kept changing the certificates. */
export class CertificateConflictError extends Error {
  override readonly name = "CertificateConflictError";
  readonly code = "Conflict";
}

function currentOf(certificates: WebhookCertificates, renewAtMs: number): CurrentCertificates {
  const { authority, nextAuthority, previousAuthority, server } = certificates;
  const bundle = [authority.certificate, nextAuthority?.certificate, previousAuthority].filter((pem) => pem !== undefined);
  return {
    server,
    bundle: bundle
      .map((pem) => pem.trim())
      .join("\n")
      .concat("\n"),
    renewAtMs,
    pathKeys: [pathKeyOf(authority), ...(nextAuthority === undefined ? [] : [pathKeyOf(nextAuthority)])],
  };
}

/** Keeps certificates in memory: each process has its own. */
export function memoryCertificateStore(): CertificateStore {
  let stored: StoredCertificates | undefined;
  let version = 0;
  return {
    load: async () => stored,
    async save(certificates) {
      version += 1;
      stored = { version: String(version), certificates };
      return true;
    },
  };
}
