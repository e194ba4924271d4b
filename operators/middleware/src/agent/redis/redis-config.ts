/** A `min-replicas-to-write` that no group can satisfy: the server rejects all writes. */
export const fence = "10000";

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
}

/** Renders `redis.conf`. If a parameter appears twice, the later line wins. */
export function redisConfig(config: RedisConfig): string {
  const { host, port, dataDir, password, primaryPassword, parameters } = config;
  const lines = [
    `bind ${host}`,
    `port ${port}`,
    `dir ${quoteValue(dataDir)}`,
    "daemonize no",
    "protected-mode no",
    `requirepass ${quoteValue(password)}`,
    `masterauth ${quoteValue(primaryPassword)}`,
    `replica-announce-ip ${host}`,
    `replica-announce-port ${port}`,
    ...Object.entries(parameters).map(([key, value]) => configLine(key, value)),
    // The server rejects writes until its agent has a role for it.
    `min-replicas-to-write ${fence}`,
  ];
  return `${lines.join("\n")}\n`;
}

/** Quotes a value for redis.conf. */
function quoteValue(value: string): string {
  return `"${value.replaceAll(/[\\"]/g, "\\$&").replaceAll("\n", "\\n").replaceAll("\r", "\\r")}"`;
}

/** Renders a line. `save` and the buffer limits consist of several unquoted words. */
function configLine(name: string, value: string): string {
  const hasWords = ["save", "client-output-buffer-limit", "oom-score-adj-values"].includes(name);
  return hasWords && value !== "" && /^[\w .-]+$/.test(value) ? `${name} ${value}` : `${name} ${quoteValue(value)}`;
}
