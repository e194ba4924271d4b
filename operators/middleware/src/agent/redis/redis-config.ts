import { AgentError, type TlsMode } from "@keelson/middleware-agent";
import type { CertificateFiles } from "./redis-tls.ts";

/** A `min-replicas-to-write` that no group can satisfy: the server rejects all writes. */
export const fence = "10000";

/** TLS of a server. */
export interface RedisConfigTls {
  readonly port: number;
  readonly mode: TlsMode;
  readonly files: CertificateFiles;
}

/** Configuration of a server. */
export interface RedisConfig {
  /** Address and port to listen on and to announce to the primary. */
  readonly host: string;
  readonly port: number;
  readonly dataDir: string;
  /** Password for clients and replicas of this server. */
  readonly password: string;
  /** Password of its primary. */
  readonly primaryPassword: string;
  readonly parameters: Readonly<Record<string, string>>;
  /** Undefined: without TLS. */
  readonly tls?: RedisConfigTls | undefined;
}

/**
 * Renders `redis.conf`. If a parameter appears twice, the later line wins.
 *
 * **Errors**: an `AgentError` with code `InvalidConfig` for a name or a value that could not be a parameter's.
 */
export function redisConfig(config: RedisConfig): string {
  const { host, port, dataDir, password, primaryPassword, parameters, tls } = config;
  const isSecure = tls?.mode === "require";
  const lines = [
    `bind ${host}`,
    `port ${isSecure ? 0 : port}`,
    `dir ${quoteValue(dataDir)}`,
    "daemonize no",
    "protected-mode no",
    `requirepass ${quoteValue(password)}`,
    `masterauth ${quoteValue(primaryPassword)}`,
    `replica-announce-ip ${host}`,
    `replica-announce-port ${isSecure ? tls.port : port}`,
    ...Object.entries(parameters).map(([key, value]) => configLine(key, value)),
    ...(tls === undefined ? [] : tlsLines(tls)),
    // The server rejects writes until its agent has a role for it.
    `min-replicas-to-write ${fence}`,
  ];
  return `${lines.join("\n")}\n`;
}

/** Clients authenticate with passwords, so they need no certificates. */
function tlsLines({ port, mode, files }: RedisConfigTls): readonly string[] {
  return [
    `tls-port ${port}`,
    `tls-cert-file ${quoteValue(files.certificate)}`,
    `tls-key-file ${quoteValue(files.key)}`,
    `tls-ca-cert-file ${quoteValue(files.authorities)}`,
    "tls-auth-clients no",
    `tls-replication ${mode === "require" ? "yes" : "no"}`,
  ];
}

/** Quotes a value for redis.conf. */
function quoteValue(value: string): string {
  return `"${value.replaceAll(/[\\"]/g, "\\$&").replaceAll("\n", "\\n").replaceAll("\r", "\\r")}"`;
}

/** Names of parameters: others could inject a line. */
const parameterName = /^[\w-]+$/;

/** Renders a line. `save` and the buffer limits consist of several unquoted words. */
function configLine(name: string, value: string): string {
  if (!parameterName.test(name) || value.includes("\0"))
    throw new AgentError(
      "InvalidConfig",
      `parameter ${JSON.stringify(name)} must be a name such as maxmemory, without NUL in its value`,
    );
  const hasWords = ["save", "client-output-buffer-limit", "oom-score-adj-values"].includes(name);
  return hasWords && value !== "" && /^[\w .-]+$/.test(value) ? `${name} ${value}` : `${name} ${quoteValue(value)}`;
}
