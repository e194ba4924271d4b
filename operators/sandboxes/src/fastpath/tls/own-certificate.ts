import { X509Certificate } from "node:crypto";
import { chmod, readFile } from "node:fs/promises";
import { isIP } from "node:net";
import { join } from "node:path";
import {
  certificateDefect,
  createCertificateAuthority,
  issueCertificate,
  type KeyPair,
} from "@keelson/api-machinery/certificates";
import type { Clock } from "@keelson/api-machinery/time";
import { writeFileAtomic } from "@keelson/execution/files";

const dayMs = 24 * 60 * 60 * 1000;
const authorityLifeMs = 10 * 365 * dayMs;
const serverLifeMs = 90 * dayMs;
/** A certificate is replaced this long before it expires. */
const renewalMs = 30 * dayMs;
/** Tolerates clock differences between machines. */
const backdateMs = 60 * 60 * 1000;

/** File below the operator's data directory with the authority that clients of the fast path trust. */
export const authorityFile = (dataDir: string): string => join(dataDir, "fastpath-ca.crt");

/** Options of {@link ensureOwnCertificate}. */
export interface OwnCertificateOptions {
  /** Directory of the keys. */
  readonly dataDir: string;
  /** Names and addresses that the certificate is valid for. */
  readonly hosts: readonly string[];
  readonly clock: Pick<Clock, "now">;
}

/** The server's certificate, signed by its own authority. Creates both if they are missing, and renews them before they expire. */
export async function ensureOwnCertificate({ dataDir, hosts, clock }: OwnCertificateOptions): Promise<KeyPair> {
  const now = clock.now();
  const notBefore = new Date(now - backdateMs);
  const stored = new StoredPair(authorityFile(dataDir), join(dataDir, "fastpath-ca.key"));
  const server = new StoredPair(join(dataDir, "fastpath-tls.crt"), join(dataDir, "fastpath-tls.key"));
  let authority = await stored.read();
  if (authority === undefined || certificateDefect(authority, authority, now, now + serverLifeMs) !== undefined) {
    // Not the server's name: a certificate whose issuer is its subject counts as self-signed.
    authority = await createCertificateAuthority("keelson-sandboxes-ca", notBefore, new Date(now + authorityLifeMs));
    await stored.write(authority);
  }
  // Clients read the authority's certificate. An earlier process may have crashed before this.
  await chmod(authorityFile(dataDir), 0o644);
  const present = await server.read();
  if (present !== undefined && isCurrent(present, authority, hosts, now)) return present;
  const issued = await issueCertificate(authority, {
    ...{ commonName: "keelson-sandboxes", usage: "server" as const, hosts, notBefore },
    notAfter: new Date(now + serverLifeMs),
  });
  await server.write(issued);
  return issued;
}

function isCurrent(pair: KeyPair, authority: KeyPair, hosts: readonly string[], now: number): boolean {
  if (certificateDefect(pair, authority, now, now + renewalMs) !== undefined) return false;
  const leaf = new X509Certificate(pair.certificate);
  // A wildcard is checked by a name that it covers.
  return hosts.every(
    (host) => (isIP(host) === 0 ? leaf.checkHost(host.replace("*", "any")) : leaf.checkIP(host)) !== undefined,
  );
}

/** A certificate and its key in two files. The key is written first: a crash in between leaves a pair that does not match. */
class StoredPair {
  readonly #certificateFile: string;
  readonly #keyFile: string;

  constructor(certificateFile: string, keyFile: string) {
    this.#certificateFile = certificateFile;
    this.#keyFile = keyFile;
  }

  /** Undefined if a file is missing. Other errors must not replace the pair, which clients may trust. */
  async read(): Promise<KeyPair | undefined> {
    try {
      const [certificate, key] = await Promise.all([readFile(this.#certificateFile, "utf8"), readFile(this.#keyFile, "utf8")]);
      return { certificate, key };
    } catch (error) {
      if (error instanceof Error && "code" in error && error.code === "ENOENT") return undefined;
      throw error;
    }
  }

  async write({ certificate, key }: KeyPair): Promise<void> {
    await writeFileAtomic(this.#keyFile, key, { durable: true });
    await writeFileAtomic(this.#certificateFile, certificate, { durable: true });
  }
}
