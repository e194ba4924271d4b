import { spawnSync } from "node:child_process";
import { existsSync, realpathSync } from "node:fs";
import { dirname, join } from "node:path";
import type { FoundMpiexec } from "../launch/mpiexec/find-mpiexec.ts";

/** The files of an installed MPI that programs need at run time, other than shared libraries. */
export interface MpiFiles {
  /** The programs; the first one is mpiexec. */
  readonly programs: readonly string[];
  /** Further names of mpiexec. */
  readonly names: readonly string[];
  /** Directories with plugins and help texts. */
  readonly folders: readonly string[];
}

/** Directories of Open MPI, as `ompi_info` names them. */
const openMpiFolders = ["pkglibdir", "pkgdatadir"];

/** Finds the files of an MPI by its mpiexec. **Errors**: `Error` if Open MPI does not name its plugins, without which no program starts. */
export function mpiFilesOf({ implementation, path }: FoundMpiexec): MpiFiles {
  const mpiexec = realpathSync(path);
  const beside = (name: string): string => join(dirname(mpiexec), name);
  const names = ["mpiexec", "mpirun"].map(beside).filter((name) => name !== mpiexec);
  if (implementation === "MPICH") return { programs: [mpiexec, beside("hydra_pmi_proxy")], names, folders: [] };
  const { stdout, error } = spawnSync(beside("ompi_info"), ["--parsable", "--path", "all"], { encoding: "utf8" });
  const folders = openMpiFolders.flatMap((name) => new RegExp(`^path:${name}:(/.+)$`, "m").exec(stdout ?? "")?.[1] ?? []);
  if (folders.length === 0)
    throw new Error(
      `${beside("ompi_info")} does not name the directories of Open MPI${error === undefined ? "" : `: ${error.message}`}`,
    );
  return { programs: [mpiexec, beside("orted")], names, folders: folders.filter((folder) => existsSync(folder)) };
}
