import type { PeerCertificate } from "node:tls";

/*
 * Errors of connections in the words of Go, which clients and tests of Kubernetes know: `dial tcp 127.0.0.1:9443: connect: connection
 * refused`.
 */

interface NetworkError {
  readonly code?: string | undefined;
  readonly message: string;
  readonly address?: string;
  readonly port?: number;
  readonly hostname?: string;
  readonly cert?: Partial<PeerCertificate>;
  readonly host?: string;
}

const refusals: Readonly<Record<string, string>> = {
  ECONNREFUSED: "connection refused",
  EHOSTUNREACH: "no route to host",
  ENETUNREACH: "network is unreachable",
  ETIMEDOUT: "connection timed out",
  EADDRNOTAVAIL: "cannot assign requested address",
  EACCES: "permission denied",
};

const untrusted: ReadonlySet<string> = new Set([
  "CERT_SIGNATURE_FAILURE",
  "CERT_UNTRUSTED",
  "DEPTH_ZERO_SELF_SIGNED_CERT",
  "SELF_SIGNED_CERT_IN_CHAIN",
  "UNABLE_TO_GET_ISSUER_CERT",
  "UNABLE_TO_GET_ISSUER_CERT_LOCALLY",
  "UNABLE_TO_VERIFY_LEAF_SIGNATURE",
]);

/** Describes a failed connection as Go does. */
export function networkErrorText(error: unknown): string {
  const first = error instanceof AggregateError ? (error.errors[0] as unknown) : error;
  if (!(first instanceof Error)) return String(first);
  const { code = "", message, address, port, hostname } = first as NetworkError;
  if (Object.hasOwn(refusals, code)) {
    const where = address === undefined ? "" : ` ${address.includes(":") ? `[${address}]` : address}:${port ?? 0}`;
    return `dial tcp${where}: connect: ${refusals[code] ?? ""}`;
  }
  if (code === "ENOTFOUND") return `dial tcp: lookup ${hostname ?? ""}: no such host`;
  if (code === "EAI_AGAIN") return `dial tcp: lookup ${hostname ?? ""}: server misbehaving`;
  if (code === "ECONNRESET") return message === "socket hang up" ? "EOF" : "read: connection reset by peer";
  if (code === "EPIPE") return "write: broken pipe";
  if (message.includes("wrong version number")) return "http: server gave HTTP response to HTTPS client";
  const fault = certificateFault(first, code);
  return fault === undefined ? message : `tls: failed to verify certificate: x509: ${fault}`;
}

function certificateFault(error: NetworkError, code: string): string | undefined {
  if (untrusted.has(code)) return "certificate signed by unknown authority";
  if (code === "CERT_HAS_EXPIRED" || code === "CERT_NOT_YET_VALID") return "certificate has expired or is not yet valid";
  if (code !== "ERR_TLS_CERT_ALTNAME_INVALID") return undefined;
  const host = error.host ?? "";
  const names = (error.cert?.subjectaltname ?? "").split(", ").filter((name) => name !== "");
  const isAddress = /^[\d.]+$/.test(host) || host.includes(":");
  const kind = isAddress ? "IP Address:" : "DNS:";
  const valid = names.filter((name) => name.startsWith(kind)).map((name) => name.slice(kind.length));
  if (valid.length > 0) return `certificate is valid for ${valid.join(", ")}, not ${host}`;
  return isAddress
    ? `cannot validate certificate for ${host} because it doesn't contain any IP SANs`
    : `certificate is not valid for any names, but wanted to match ${host}`;
}
