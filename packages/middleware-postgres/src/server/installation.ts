import { accessSync, constants, readdirSync, readFileSync, realpathSync } from "node:fs";
import { delimiter, dirname, join } from "node:path";
import { AgentError } from "@keelson/middleware-agent";
import type { ProgramUser } from "./run-tool.ts";

/** Debian installs each major version in a folder of its own, which is not in `PATH`. */
const debianFolder = "/usr/lib/postgresql";
/** User id of images without a user `postgres`. */
const defaultId = 999;

/**
 * Finds the folder of PostgreSQL's programs: next to `program`, if that is a path; of the version, where Debian installs it; in `PATH`; or the newest that Debian has.
 *
 * **Errors**: an `AgentError` with code `ProgramExited`.
 */
export function findPrograms(program: string, version: string): string {
  if (program.includes("/")) return dirname(realpathSync(program));
  const [major = ""] = version.split(".");
  const folders = [
    ...(major === "" ? [] : [join(debianFolder, major, "bin")]),
    ...(process.env.PATH ?? "").split(delimiter),
    ...installedVersions().map((each) => join(debianFolder, each, "bin")),
  ];
  const found = folders.find((folder) => isExecutable(join(folder, program)));
  if (found === undefined)
    throw new AgentError("ProgramExited", `${program} not found in PATH or ${debianFolder}: install PostgreSQL`);
  return dirname(realpathSync(join(found, program)));
}

function installedVersions(): readonly string[] {
  try {
    return readdirSync(debianFolder).sort((a, b) => Number(b) - Number(a));
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
