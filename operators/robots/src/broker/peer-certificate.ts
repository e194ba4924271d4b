import { createHash, type X509Certificate } from "node:crypto";
import { TLSSocket } from "node:tls";
import { robotIdPattern } from "../protocol/messages.ts";

/** Contents of the certificate of a robot's TLS connection. */
export interface PeerCertificate {
  readonly robotId: string;
  /** SHA-256 (hex) of the public key, of which the peer has proven to have the private key. */
  readonly keySha256: string;
  readonly isExpired: boolean;
}

/**
 * The certificate that the other side of a connection presented. Undefined if it presented none, or one that none of the authorities has
 * signed for a robot.
 *
 * The signature is checked here and not by the TLS library, which reports only one fault of a certificate: of one that is forged and
 * expired, that it has expired.
 */
export function peerCertificateOf(
  socket: unknown,
  authorities: readonly X509Certificate[],
  now: number,
): PeerCertificate | undefined {
  if (!(socket instanceof TLSSocket)) return undefined;
  const certificate = socket.getPeerX509Certificate();
  if (certificate === undefined) return undefined;
  if (!authorities.some((each) => certificate.checkIssued(each) && certificate.verify(each.publicKey))) return undefined;
  const robotId = certificate.subject.replace(/^CN=/, "");
  if (!robotIdPattern.test(robotId) || !certificate.keyUsage?.includes(clientAuth)) return undefined;
  const key = certificate.publicKey.export({ type: "spki", format: "der" });
  return {
    robotId,
    keySha256: createHash("sha256").update(key).digest("hex"),
    isExpired: Date.parse(certificate.validTo) <= now,
  };
}

/** Extended key usage of client certificates (RFC 5280 section 4.2.1.12). */
const clientAuth = "1.3.6.1.5.5.7.3.2";
