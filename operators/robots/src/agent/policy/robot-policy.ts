import { type DevicePolicy, readDevicePolicies } from "./device-policy.ts";
import { type DockerPolicy, readDockerPolicy } from "./docker-policy.ts";
import { duration, fields, invalid, isPlainPath, names, size } from "./policy-fields.ts";

/** What the owner of a robot allows. It overrides whatever the server sends. */
export interface RobotPolicy {
  /** Allowed drivers. */
  readonly drivers: readonly string[];
  /** Users that tasks may run as; each task must then name one. Default: any. */
  readonly users?: readonly string[];
  /** Absolute paths of programs, or of directories if they end with `/`. Default: any program. */
  readonly commands?: readonly string[];
  /** Whether users may run commands alongside the programs of tasks. {@link commands} applies to them too. Default true. */
  readonly exec?: boolean;
  /** Whether http, tcp and gRPC checks of tasks may connect to ports of this robot's loopback interface. Default: unless {@link commands} is set. */
  readonly checks?: boolean;
  /** Programs of the drivers `exec` and `java` run in bubblewrap. Default: they are plain processes, as with `raw_exec`. */
  readonly isolation?: TaskIsolation;
  readonly artifacts: ArtifactPolicy;
  /** Devices that tasks can get. Default: none. */
  readonly devices?: readonly DevicePolicy[];
  /** Containers of the `docker` driver. Default: none. */
  readonly docker?: DockerPolicy;
  /** Absolute path of a file with the robot's location. Default: it reports none. */
  readonly locationFile?: string;
}

/** What an isolated program can see in addition to `/usr` and its task's directory. */
export interface TaskIsolation {
  /** `none`: no network but its own loopback interface. */
  readonly network: "shared" | "none";
  /** Files and directories that it can read. */
  readonly paths: readonly string[];
  /** Files and directories that it can change. */
  readonly writablePaths: readonly string[];
}

/** Which files an agent fetches for its tasks. */
export interface ArtifactPolicy {
  /** URL prefixes: `https://` (any host), `https://host/path/`, `file:///path/`. */
  readonly sources: readonly string[];
  /** Whether every artifact needs a SHA-256 digest. */
  readonly requireChecksum: boolean;
  /** Maximum size of a download. */
  readonly maxBytes: number;
  /** Maximum size of the files of an archive. */
  readonly maxUnpackedBytes: number;
  /** Maximum time of a download, with its retries. */
  readonly timeoutMs: number;
  /** Maximum size of the cache. */
  readonly cacheBytes: number;
}

/** The policy of a robot whose owner has not written one. */
export const defaultRobotPolicy: RobotPolicy = {
  drivers: ["exec", "raw_exec", "java"],
  artifacts: {
    sources: ["https://", "http://"],
    requireChecksum: true,
    maxBytes: 2 * 2 ** 30,
    maxUnpackedBytes: 8 * 2 ** 30,
    timeoutMs: 3_600_000,
    cacheBytes: 4 * 2 ** 30,
  },
};

/**
 * Reads a policy: an object with the fields of {@link RobotPolicy}, sizes as quantities and times as durations. Missing fields have their
 * defaults.
 *
 * **Errors**: {@link RobotsError} with the code `InvalidPolicy`, which names the field. A policy is never applied in part.
 */
export function readRobotPolicy(value: unknown): RobotPolicy {
  const policy = fields(value, "", [
    ...["drivers", "users", "commands", "exec", "checks", "isolation", "artifacts", "devices", "docker", "locationFile"],
  ]);
  const { artifacts: defaults } = defaultRobotPolicy;
  const artifacts = fields(policy.artifacts ?? {}, "artifacts", [
    ...["sources", "requireChecksum", "maxSize", "maxUnpackedSize", "timeout", "cacheSize"],
  ]);
  const users = names(policy.users, "users");
  const commands = names(policy.commands, "commands");
  const isolation = policy.isolation === undefined ? undefined : readIsolation(policy.isolation);
  const docker = policy.docker === undefined ? undefined : readDockerPolicy(policy.docker);
  const known = [...defaultRobotPolicy.drivers, ...(docker === undefined ? [] : ["docker"])];
  // A driver without isolation must be allowed explicitly.
  const allowed = isolation === undefined ? known : known.filter((driver) => driver !== "raw_exec");
  const drivers = names(policy.drivers, "drivers") ?? allowed;
  const sources = names(artifacts.sources, "artifacts.sources") ?? defaults.sources;
  const { requireChecksum = defaults.requireChecksum } = artifacts;
  for (const driver of drivers) {
    if (!known.includes(driver)) throw invalid("drivers", driver, `must be one of ${known.join(", ")}`);
  }
  for (const command of commands ?? []) {
    if (!isPlainPath(command)) throw invalid("commands", command, "must be an absolute path without . or .. in it");
  }
  for (const source of sources) {
    if (parsePrefix(source) === undefined) {
      throw invalid(
        "artifacts.sources",
        source,
        "must begin with https://, http:// or file:///, and must not contain credentials",
      );
    }
  }
  const { exec, locationFile, checks = commands === undefined } = policy;
  if (locationFile !== undefined && !(typeof locationFile === "string" && isPlainPath(locationFile)))
    throw invalid("locationFile", locationFile, "must be an absolute path without . or .. in it");
  if (typeof checks !== "boolean") throw invalid("checks", checks, "must be true or false");
  if (exec !== undefined && typeof exec !== "boolean") throw invalid("exec", exec, "must be true or false");
  if (typeof requireChecksum !== "boolean")
    throw invalid("artifacts.requireChecksum", requireChecksum, "must be true or false");
  return {
    drivers,
    ...(users === undefined ? {} : { users }),
    ...(commands === undefined ? {} : { commands }),
    ...(exec === undefined ? {} : { exec }),
    ...(checks ? {} : { checks }),
    ...(isolation === undefined ? {} : { isolation }),
    ...(policy.devices === undefined ? {} : { devices: readDevicePolicies(policy.devices) }),
    ...(docker === undefined ? {} : { docker }),
    ...(locationFile === undefined ? {} : { locationFile }),
    artifacts: {
      sources,
      requireChecksum,
      maxBytes: size(artifacts, "artifacts", "maxSize", defaults.maxBytes),
      maxUnpackedBytes: size(artifacts, "artifacts", "maxUnpackedSize", defaults.maxUnpackedBytes),
      timeoutMs: duration(artifacts, "artifacts", "timeout", defaults.timeoutMs),
      cacheBytes: size(artifacts, "artifacts", "cacheSize", defaults.cacheBytes),
    },
  };
}

function readIsolation(value: unknown): TaskIsolation {
  const { network = "shared", ...rest } = fields(value, "isolation", ["network", "paths", "writablePaths"]);
  if (network !== "shared" && network !== "none") throw invalid("isolation.network", network, "must be shared or none");
  const pathsOf = (field: "paths" | "writablePaths"): readonly string[] => {
    const paths = names(rest[field], `isolation.${field}`) ?? [];
    for (const path of paths) {
      if (!isPlainPath(path) || path === "/")
        throw invalid(`isolation.${field}`, path, "must be an absolute path without . or .. in it, not /");
    }
    return paths;
  };
  return { network, paths: pathsOf("paths"), writablePaths: pathsOf("writablePaths") };
}

/** Why a task's program is not allowed; undefined if it is. */
export function programProblem(
  { users, commands }: Pick<RobotPolicy, "users" | "commands">,
  { command, user }: { readonly command: string; readonly user: string | undefined },
): string | undefined {
  if (users !== undefined && (user === undefined || !users.includes(user))) {
    const what = user === undefined ? "spec.user is missing" : `spec.user: ${JSON.stringify(user)} is not allowed`;
    return `${what}; the robot's policy allows ${users.join(", ") || "no user"}`;
  }
  const isAllowed = (allowed: string): boolean =>
    allowed.endsWith("/") ? command.startsWith(allowed) && command.length > allowed.length : command === allowed;
  if (commands === undefined || (isPlainPath(command) && commands.some(isAllowed))) return undefined;
  const list = commands.join(", ") || "no command";
  return `spec.config: the program ${JSON.stringify(command)} is not allowed; the robot's policy allows ${list}`;
}

/** Whether a URL begins with one of the allowed prefixes: same scheme, host and port, and a path below the prefix's. */
export function isAllowedSource({ sources }: Pick<ArtifactPolicy, "sources">, url: URL): boolean {
  if (url.username !== "" || url.password !== "") return false;
  return sources.some((source) => {
    const prefix = parsePrefix(source);
    if (prefix === undefined || prefix.protocol !== url.protocol) return false;
    if (prefix.host !== undefined && prefix.host !== url.host) return false;
    const { path } = prefix;
    // An escaped slash or dot could mean another directory to the server.
    if (path !== "/" && /%2f|%5c|%2e/i.test(url.pathname)) return false;
    return path.endsWith("/") ? url.pathname.startsWith(path) : url.pathname === path || url.pathname.startsWith(`${path}/`);
  });
}

interface SourcePrefix {
  readonly protocol: string;
  /** Undefined: any. */
  readonly host?: string;
  readonly path: string;
}

function parsePrefix(source: string): SourcePrefix | undefined {
  if (source === "https://" || source === "http://") return { protocol: source.slice(0, -2), path: "/" };
  if (!URL.canParse(source)) return undefined;
  const { protocol, host, pathname, username, password, search, hash } = new URL(source);
  if (username !== "" || password !== "" || search !== "" || hash !== "") return undefined;
  if (protocol === "file:") return host === "" ? { protocol, host, path: pathname } : undefined;
  return protocol === "https:" || protocol === "http:" ? { protocol, host, path: pathname } : undefined;
}
