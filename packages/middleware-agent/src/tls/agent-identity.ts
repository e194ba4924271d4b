import { X509Certificate } from "node:crypto";
import { checkServerIdentity, type ConnectionOptions, type TlsOptions } from "node:tls";
import type { Certificates } from "./certificates.ts";
import type { TlsMode } from "./tls-mode.ts";

/** What an agent or a controller proves to other agents of an App. */
export interface AgentIdentity extends Certificates {
  readonly mode: TlsMode;
}

/**
 * The DNS name in the certificates of all agents of an App. Each side requires it of the other: certificates of its programs, which have
 * the same authority, do not have it.
 */
export const agentName = (namespace: string, app: string): string => `${app}.${namespace}.agents.middleware.io`;

const protocol = { minVersion: "TLSv1.3", ALPNProtocols: ["h2"] } satisfies TlsOptions;

function pairOf({ authorities, certificate, key }: Certificates) {
  return { ca: authorities, cert: certificate, key };
}

/** Name of the agents that a certificate is for. Empty if it has none, which matches nothing. */
function nameOf({ certificate }: Certificates): string {
  const [, name = ""] = /DNS:([^,\s]+)/.exec(new X509Certificate(certificate).subjectAltName ?? "") ?? [];
  return name;
}

/** Options of a connection to an agent of the same App. */
export function clientOptions(identity: Certificates): ConnectionOptions {
  return { ...protocol, ...pairOf(identity), servername: nameOf(identity), rejectUnauthorized: true };
}

/** Options of a server for agents and controllers of the same App. */
export function serverOptions(identity: Certificates): TlsOptions {
  return { ...protocol, ...pairOf(identity), requestCert: true, rejectUnauthorized: true };
}

/** Whether the other side of a connection is an agent or a controller of the same App. Its authority was verified before. */
export function isSameAgent(identity: Certificates, peer: Parameters<typeof checkServerIdentity>[1]): boolean {
  const name = nameOf(identity);
  return name !== "" && peer.subject !== undefined && checkServerIdentity(name, peer) === undefined;
}
