import { createHash, createPrivateKey, X509Certificate } from "node:crypto";

/** A certificate, its private key and the authorities to trust, each in PEM. */
export interface Certificates {
  /** One or more authorities. */
  readonly authorities: string;
  readonly certificate: string;
  readonly key: string;
}

/** Certificates that may be replaced while they are in use. */
export interface CertificateSource {
  readonly current: Certificates;
  /** Calls `listener` after each change. */
  onChange(listener: () => void): void;
  /** Records that the server uses these certificates: it starts with them until it uses others. */
  accept?(certificates: Certificates): Promise<void>;
  /** Records that the server did not start with `current`, whatever the cause: the next start may use others. */
  recordFailure?(): Promise<void>;
  close(): void;
}

/** Identifies certificates without their key, so that a controller can compare them with a Secret. */
export function certificateHash(parts: readonly Pick<Certificates, "authorities" | "certificate">[]): string {
  const hash = createHash("sha256");
  for (const { authorities, certificate } of parts)
    hash.update(`${authorities.length}\0${authorities}${certificate.length}\0${certificate}`);
  return hash.digest("hex").slice(0, 16);
}

/** Whether two sets of certificates are the same, with their keys. */
export const areSameCertificates = (a: Certificates, b: Certificates): boolean =>
  a.key === b.key && certificateHash([a]) === certificateHash([b]);

/** Why certificates cannot be used; undefined if they can. */
export function certificateProblem({ authorities, certificate, key }: Certificates): string | undefined {
  try {
    void new X509Certificate(authorities);
  } catch {
    return "ca.crt: must contain certificates in PEM";
  }
  try {
    const leaf = new X509Certificate(certificate);
    return leaf.checkPrivateKey(createPrivateKey(key)) ? undefined : "tls.key: must be the key of tls.crt";
  } catch {
    return "tls.crt and tls.key: must be a certificate and its key in PEM";
  }
}
