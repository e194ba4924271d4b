import type { TLSSocket } from "node:tls";

/** What a client certificate that our authority signed says of its holder. */
export interface ClientCertificate {
  readonly commonName: string;
  readonly organizations: readonly string[];
  /** End of its validity, in milliseconds since the epoch: a connection may outlive its certificate. */
  readonly notAfter: number;
}

const known = new WeakMap<TLSSocket, ClientCertificate | "none">();

/** The verified client certificate of a connection, read once a connection; undefined when it has none or a wrong one. */
export function clientCertificateOf(socket: TLSSocket): ClientCertificate | undefined {
  let certificate = known.get(socket);
  if (certificate === undefined) known.set(socket, (certificate = read(socket) ?? "none"));
  return certificate === "none" ? undefined : certificate;
}

function read(socket: TLSSocket): ClientCertificate | undefined {
  if (!socket.authorized) return undefined;
  const certificate = socket.getPeerCertificate();
  // An empty object stands for no certificate. Two common names would leave open who it is.
  const commonName: unknown = certificate.subject?.CN;
  if (typeof commonName !== "string" || commonName === "") return undefined;
  const organizations: unknown = certificate.subject.O;
  return {
    commonName,
    organizations: [organizations].flat().filter((name): name is string => typeof name === "string"),
    notAfter: Date.parse(certificate.valid_to),
  };
}
