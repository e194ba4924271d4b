import type { TLSSocket } from "node:tls";

/** The identity in a client certificate signed by our authority. */
export interface ClientCertificate {
  readonly commonName: string;
  readonly organizations: readonly string[];
  /** End of its validity in milliseconds since the epoch. A connection may outlive its certificate. */
  readonly notAfter: number;
}

/** Memoized: parsing is expensive, and the certificate of a connection never changes. */
const known = new WeakMap<TLSSocket, ClientCertificate | "none" | "invalid">();

/** The client certificate of a connection: verified, `invalid`, or undefined if it has none. */
export function clientCertificateOf(socket: TLSSocket): ClientCertificate | "invalid" | undefined {
  let certificate = known.get(socket);
  if (certificate === undefined) known.set(socket, (certificate = read(socket)));
  return certificate === "none" ? undefined : certificate;
}

function read(socket: TLSSocket): ClientCertificate | "none" | "invalid" {
  const certificate = socket.getPeerCertificate();
  // Node returns an empty object if there is no certificate.
  if (certificate.subject === undefined) return "none";
  // Two common names would be ambiguous.
  const commonName: unknown = certificate.subject.CN;
  if (!socket.authorized || typeof commonName !== "string" || commonName === "") return "invalid";
  const organizations: unknown = certificate.subject.O;
  return {
    commonName,
    organizations: [organizations].flat().filter((name): name is string => typeof name === "string"),
    notAfter: Date.parse(certificate.valid_to),
  };
}
