import { accessSync, constants, readdirSync, readFileSync, realpathSync } from "node:fs";
import { delimiter, dirname, join } from "node:path";
import { AgentError } from "@keelson/middleware-agent";
import type { ProgramUser } from "./run-tool.ts";

/** Debian installs each major version in its own directory, `VERSION/bin`, which is not in `PATH`. */
export const debianFolder = "/usr/lib/postgresql";
/** User id of images without a user `postgres`. */
const defaultId = 999;

/**
 * Finds the directory of PostgreSQL's programs: next to `program`, if that is a path; of the version in `base`, as Debian installs it; in `PATH`; or the newest in
 * `base`.
 *
 * **Errors**: an `AgentError` with code `ProgramExited`.
 */
export function findPrograms(program: string, version: string, base = debianFolder): string {
  if (program.includes("/")) return dirname(realpathSync(program));
  const [major = ""] = version.split(".");
  const folders = [
    ...(major === "" ? [] : [join(base, major, "bin")]),
    ...(process.env.PATH ?? "").split(delimiter),
    ...installedVersions(base).map((each) => join(base, each, "bin")),
  ];
  const found = folders.find((folder) => isExecutable(join(folder, program)));
  if (found === undefined) throw new AgentError("ProgramExited", `${program} not found in PATH or ${base}: install PostgreSQL`);
  return dirname(realpathSync(join(found, program)));
}

/** Directory of the programs of a major version in `base`; undefined if it is not installed there. */
export function programsOf(major: string, base: string): string | undefined {
  const folder = join(base, major, "bin");
  return /^\d+$/.test(major) && isExecutable(join(folder, "postgres")) ? folder : undefined;
}

/** Major version of a version, such as 15 of `15.18`. */
export function majorOf(version: string): string {
  return version.split(".", 1)[0] ?? "";
}

function installedVersions(base: string): readonly string[] {
  try {
    return readdirSync(base).sort((a, b) => Number(b) - Number(a));
  } catch {
    return [];
  }
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

/** The user that PostgreSQL runs as: it refuses to run as root, so an agent of root uses `runAs` (`UID:GID`) or the user `postgres`. */
export function findUser(runAs: string): ProgramUser {
  if (process.getuid?.() !== 0) return undefined;
  const [uid, gid] = (runAs === "" ? postgresUser() : runAs.split(":")).map(Number);
  if (uid === undefined || !Number.isInteger(uid) || uid <= 0)
    throw new AgentError("InvalidConfig", `--run-as: ${JSON.stringify(runAs)} must be UID:GID and not root`);
  return { uid, gid: gid !== undefined && Number.isInteger(gid) ? gid : uid };
}

function postgresUser(): readonly string[] {
  const line = readFileSync("/etc/passwd", "utf8")
    .split("\n")
    .find((each) => each.startsWith("postgres:"));
  return line?.split(":").slice(2, 4) ?? [String(defaultId), String(defaultId)];
}
