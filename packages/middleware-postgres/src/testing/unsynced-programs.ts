import { chmod, mkdir, readdir, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { findPrograms } from "../server/installation.ts";

/**
 * Creates a directory of PostgreSQL's programs that leave writing to the disk to the operating system. Killed processes lose nothing by that,
 * and tests do not wait for the disk. `real`: directory of the programs. Resolves to the path of `postgres`.
 */
export async function installUnsyncedPrograms(folder: string, real = findPrograms("postgres", "15")): Promise<string> {
  const wrappers = new Map([
    ["postgres", `exec ${real}/postgres "$@" -c fsync=off -c wal_init_zero=off`],
    ["pg_basebackup", `exec ${real}/pg_basebackup "$@" --no-sync`],
    ["pg_rewind", `exec ${real}/pg_rewind "$@" --no-sync`],
    // A copy of a cluster would have its system identifier, by which servers recognize data of another cluster.
    ["initdb", `case "$*" in *--sync-only*) exit 0 ;; esac\nexec ${real}/initdb "$@" --no-sync`],
  ]);
  await mkdir(folder, { recursive: true });
  await chmod(folder, 0o755);
  for (const name of await readdir(real)) if (!wrappers.has(name)) await symlink(join(real, name), join(folder, name));
  for (const [name, script] of wrappers) {
    const path = join(folder, name);
    await writeFile(path, `#!/bin/sh\n${script}\n`);
    await chmod(path, 0o755);
  }
  return join(folder, "postgres");
}
