import { createHash } from "node:crypto";
import type { ConnectionOptions, TlsOptions } from "node:tls";

/*
 * Connections between the operator and an agent use TLS with a pre-shared key (RFC 5489): the handshake succeeds only if both ends have
 * the agent's key. A process that listens on an agent's address without the key learns nothing: no request, token or key is sent.
 */

/** AEAD with an ephemeral key exchange. Certificates are not offered, so no other kind of server can be impersonated. */
const ciphers = "ECDHE-PSK-CHACHA20-POLY1305";

/** OpenSSL supports these ciphers up to TLS 1.2. */
const versions = { minVersion: "TLSv1.2", maxVersion: "TLSv1.2" } as const;

const identity = "keelson-operator";

const keyOf = (token: string): Buffer => createHash("sha256").update(`keelson agent ${token}`).digest();

/** TLS options of an agent's server. */
export function serverTlsOptions(token: string): TlsOptions {
  const psk = keyOf(token);
  return { ciphers, ...versions, pskCallback: (_socket, name) => (name === identity ? psk : null) };
}

/** TLS options of the operator's connections to one agent. */
export function clientTlsOptions(token: string): ConnectionOptions {
  const psk = keyOf(token);
  // The key authenticates the server; there is no certificate to check.
  return { ciphers, ...versions, pskCallback: () => ({ psk, identity }), checkServerIdentity: () => undefined };
}
