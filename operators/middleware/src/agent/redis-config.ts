/** So many replicas no group has: a primary that wants them (`min-replicas-to-write`) takes no writes. */
export const fence = "10000";

/** What a server is started with. */
export interface RedisConfig {
  /** Address and port that it listens on, and that it tells its primary. */
  readonly host: string;
  readonly port: number;
  readonly dataDir: string;
  /** Of its own, and of its primary. */
  readonly password: string;
  readonly parameters: Readonly<Record<string, string>>;
  /** Whether it takes no writes for now. */
  readonly isFenced: boolean;
  /** Address of the primary that it follows. */
  readonly follows: string | undefined;
}

/** The text of `redis.conf`. Of two lines for one parameter the server takes the later. */
export function redisConfig({ host, port, dataDir, password, parameters, isFenced, follows }: RedisConfig): string {
  const lines = [
    `bind ${host}`,
    `port ${port}`,
    `dir ${quoteValue(dataDir)}`,
    "daemonize no",
    "protected-mode no",
    `requirepass ${quoteValue(password)}`,
    `masterauth ${quoteValue(password)}`,
    `replica-announce-ip ${host}`,
    `replica-announce-port ${port}`,
    ...Object.entries(parameters).map(([key, value]) => configLine(key, value)),
    ...(isFenced ? [`min-replicas-to-write ${fence}`] : []),
    ...(follows === undefined ? [] : [`replicaof ${follows} ${port}`]),
  ];
  return `${lines.join("\n")}\n`;
}

/** A value as redis.conf has it: in double quotes, so that spaces and quotes are safe. */
function quoteValue(value: string): string {
  return `"${value.replaceAll(/[\\"]/g, "\\$&").replaceAll("\n", "\\n").replaceAll("\r", "\\r")}"`;
}

/** `save "900 1 300 10"` and the buffer limits are several words in the file. */
function configLine(name: string, value: string): string {
  const isSeveral = ["save", "client-output-buffer-limit", "oom-score-adj-values"].includes(name);
  return isSeveral && value !== "" && /^[\w .-]+$/.test(value) ? `${name} ${value}` : `${name} ${quoteValue(value)}`;
}
