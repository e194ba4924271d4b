import { AgentError, type TlsMode } from "@keelson/middleware-agent";
import { secondSuperuser, superuser } from "./postgres-client.ts";

/** The server that a standby follows. */
export interface Upstream {
  readonly host: string;
  readonly port: number;
  readonly user: string;
  readonly password: string;
  /** Name of this server in `pg_stat_replication` and `synchronous_standby_names`. */
  readonly name: string;
  /** Slot of this server there. Undefined: only `wal_keep_size` keeps log for it. */
  readonly slot?: string;
  /** Undefined: as the client library prefers. */
  readonly tls?: { readonly mode: TlsMode; readonly authoritiesFile: string };
}

/** TLS of a server, with the paths of its files. */
export interface ServerTls {
  readonly mode: TlsMode;
  readonly certificateFile: string;
  readonly keyFile: string;
}

/** Configuration of a server. */
export interface PostgresConfig {
  readonly host: string;
  readonly port: number;
  /** Directory of the socket that only the agent uses. */
  readonly socketFolder: string;
  readonly hbaFile: string;
  /** File with the password of the upstream. */
  readonly passwordFile: string;
  readonly upstream: Upstream | undefined;
  readonly parameters: Readonly<Record<string, string>>;
  /** Command that archives a segment of the log; undefined: the log is not archived. */
  readonly archiveCommand?: string | undefined;
  /** Undefined: without TLS. */
  readonly tls?: ServerTls | undefined;
}

const parameterName = /^[a-z_][a-z0-9_$]*(\.[a-z_][a-z0-9_$]*)*$/;

/**
 * Parameters with the names that the server knows them by: it ignores case.
 *
 * **Errors**: an `AgentError` with code `InvalidConfig` for a name that could not be a parameter, or a value with a NUL character.
 */
export function normalizeParameters(parameters: Readonly<Record<string, string>>): Readonly<Record<string, string>> {
  return Object.fromEntries(
    Object.entries(parameters).map(([name, value]) => {
      const normalized = name.toLowerCase();
      if (!parameterName.test(normalized))
        throw new AgentError("InvalidConfig", `parameter ${JSON.stringify(name)} must be a name such as work_mem`);
      if (value.includes("\0"))
        throw new AgentError("InvalidConfig", `${normalized}: the value must not contain a NUL character`);
      return [normalized, value];
    }),
  );
}

/** Renders `postgresql.conf`. The last line for a parameter wins. */
export function postgresConfig({
  host,
  port,
  socketFolder,
  hbaFile,
  passwordFile,
  upstream,
  parameters,
  archiveCommand,
  tls,
}: PostgresConfig): string {
  const own = normalizeParameters(parameters);
  const settings: Settings = [
    ["wal_sender_timeout", "10s"],
    // A replica whose upstream changes connects to it within this time.
    ["wal_retrieve_retry_interval", "1s"],
    // Changing the mode takes a restart, changing the command does not. Replicas archive too: one of them may be promoted.
    // Log for a replica that does not return must not fill the volume.
    ["max_slot_wal_keep_size", "1GB"],
    ["archive_mode", "always"],
    ["archive_command", archiveCommand ?? "true"],
    ["archive_timeout", archiveCommand === undefined ? "0" : "60s"],
    ...Object.entries(own),
    ["wal_keep_size", keptLog(own["wal_keep_size"] ?? defaultKeptLog)],
    ["listen_addresses", host],
    ["port", String(port)],
    ["unix_socket_directories", socketFolder],
    ["unix_socket_permissions", "0700"],
    ["hba_file", hbaFile],
    ["hot_standby", "on"],
    ["full_page_writes", "on"],
    ["primary_conninfo", upstream === undefined ? "" : connectionString(upstream, { passwordFile })],
    ["primary_slot_name", upstream?.slot ?? ""],
    ["recovery_target_timeline", "latest"],
    ...(tls === undefined ? [] : tlsSettings(tls)),
  ];
  return renderSettings(settings);
}

const tlsSettings = ({ certificateFile, keyFile }: ServerTls): Settings => [
  ["ssl", "on"],
  ["ssl_cert_file", certificateFile],
  ["ssl_key_file", keyFile],
];

/** As the plugin's default. */
const defaultKeptLog = "256MB";
const minKeptLog = "64MB";
const minKeptMegabytes = 64;
const megabytes: Readonly<Record<string, number>> = { B: 1 / 1_048_576, kB: 1 / 1_024, MB: 1, GB: 1_024, TB: 1_048_576 };
/** A number as the server reads it: decimal with fraction and exponent, hexadecimal, or octal with a leading zero; then a unit. */
const sizeText = /^\s*(\+?(?:0[xX][0-9a-fA-F]+|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?))\s*(B|kB|MB|GB|TB)?\s*$/;

/**
 * A size of log to keep, raised to the minimum. The checkpoint of a shutdown begins a new segment, and would otherwise remove the previous one
 * while replicas receive it. Text that is not a size is kept: the server rejects it.
 */
function keptLog(size: string): string {
  const [, text, unit = "MB"] = sizeText.exec(size) ?? [];
  if (text === undefined) return size;
  const digits = text.replace("+", "");
  const count = /^0[0-7]+$/.test(digits) ? Number.parseInt(digits, 8) : Number(digits);
  return count * (megabytes[unit] ?? 1) < minKeptMegabytes ? minKeptLog : size;
}

/** Settings in order. The last one for a parameter wins. */
export type Settings = readonly (readonly [name: string, value: string])[];

/** Renders a configuration file. */
export function renderSettings(settings: Settings): string {
  return settings.map(([name, value]) => `${name} = ${quoteSetting(value)}\n`).join("");
}

/** Renders `pg_hba.conf`. A closed server accepts only its agent. */
export function accessRules(isOpen: boolean, mode?: TlsMode): string {
  const own = `local all ${superuser} trust\nlocal replication ${superuser} trust\n`;
  if (!isOpen) return own;
  const type = mode === "require" ? "hostssl" : "host";
  const rules = ["0.0.0.0/0", "::/0"].flatMap((from) => [
    `${type} all all ${from} scram-sha-256`,
    `${type} replication ${superuser},${secondSuperuser} ${from} scram-sha-256`,
    // An own rule, so that other agents can tell this from a closed server.
    ...(mode === "require" ? [`hostnossl all all ${from} reject`, `hostnossl replication all ${from} reject`] : []),
  ]);
  return `${own}${rules.join("\n")}\n`;
}

/** Renders a password file of libpq for one password. Undefined for one that such a file cannot have. */
export function passwordFileOf(password: string): string | undefined {
  if (/[\r\n]/.test(password)) return undefined;
  return `*:*:*:*:${password.replaceAll(/[\\:]/g, "\\$&")}\n`;
}

/**
 * A connection string of libpq, without a database. It has no password: all users of a machine can read arguments of programs, and the server
 * writes settings that have changed to its log. Only a password that no file can have is part of a setting (`passwordFile`).
 */
export function connectionString(
  { host, port, user, password, name, tls }: Upstream,
  { passwordFile }: { readonly passwordFile?: string } = {},
): string {
  const secret =
    passwordFile === undefined ? {} : passwordFileOf(password) === undefined ? { password } : { passfile: passwordFile };
  const own = { host, port: String(port), user, ...secret, application_name: name, connect_timeout: "3" };
  const sslmode = tls?.mode === "require" ? "verify-ca" : "prefer";
  // Not the default, which is in the home directory of the agent's user: a server of another user must not fail to read it.
  const sslcert = `${tls?.authoritiesFile}.no-client-certificate`;
  const parts = { ...own, ...(tls === undefined ? {} : { sslmode, sslrootcert: tls.authoritiesFile, sslcert }) };
  return Object.entries(parts)
    .map(([key, value]) => `${key}='${value.replaceAll(/[\\']/g, "\\$&")}'`)
    .join(" ");
}

function quoteSetting(value: string): string {
  return `'${value.replaceAll("\\", "\\\\").replaceAll("'", "''").replaceAll("\n", "\\n")}'`;
}
