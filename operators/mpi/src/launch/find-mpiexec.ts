import { accessSync, constants, readFileSync, statSync } from "node:fs";
import { isAbsolute, join, resolve } from "node:path";
import { spawnSync } from "node:child_process";
import type { LaunchOrder, MpiImplementation } from "./pod-environment.ts";

/** An mpiexec of this machine. */
export interface FoundMpiexec {
  readonly implementation: MpiImplementation;
  readonly path: string;
}

/** No mpiexec fits. Recognise it by `code`. */
export class MpiexecNotFoundError extends Error {
  override readonly name = "MpiexecNotFoundError";
  readonly code = "NoMpiexec";
}

/** Names under which the implementations install it; Debian has both beside each other. */
const names: Readonly<Record<MpiImplementation, readonly string[]>> = {
  OpenMPI: ["mpiexec.openmpi", "mpiexec", "mpirun"],
  MPICH: ["mpiexec.mpich", "mpiexec.hydra", "mpiexec", "mpirun"],
};
const packages: Readonly<Record<MpiImplementation, string>> = { OpenMPI: "openmpi-bin", MPICH: "mpich" };
const maxProgramBytes = 64 * 1024 * 1024;

/**
 * The mpiexec to start an order with, on the PATH given. For `Auto` it is that of the MPI which the program is linked with;
 * of a program that does not tell (a script, a wrapper), the first one there is.
 *
 * **Errors**: a {@link MpiexecNotFoundError} that says what is missing.
 */
export function findMpiexec(order: LaunchOrder, path: string, workingDirectory: string): FoundMpiexec {
  const wanted =
    order.implementation === "Auto" ? linkedWith(order.command[0] ?? "", path, workingDirectory) : order.implementation;
  if (wanted !== undefined) {
    for (const name of names[wanted]) {
      const found = onPath(name, path);
      if (found !== undefined && implementationOf(found) === wanted) return { implementation: wanted, path: found };
    }
    throw new MpiexecNotFoundError(
      `no mpiexec of ${wanted} is on the PATH (${path}); on Debian it comes with: apt-get install ${packages[wanted]}`,
    );
  }
  for (const name of ["mpiexec", ...names.OpenMPI, ...names.MPICH]) {
    const found = onPath(name, path);
    const implementation = found === undefined ? undefined : implementationOf(found);
    if (found !== undefined && implementation !== undefined) return { implementation, path: found };
  }
  throw new MpiexecNotFoundError(`no mpiexec is on the PATH (${path}); on Debian it comes with: apt-get install openmpi-bin`);
}

/** Which MPI's library a program asks for, by the names in its file. */
export function libraryOf(program: Buffer): MpiImplementation | undefined {
  if (!program.subarray(0, 4).equals(Buffer.from("\x7fELF", "latin1"))) return undefined;
  // Both call it libmpi where they are alone; the number tells them apart: 12 is the ABI that MPICH and its kin share.
  if (program.includes("libmpich.so.") || program.includes("libmpi.so.12")) return "MPICH";
  return /libmpi\.so\.\d/.test(program.toString("latin1")) ? "OpenMPI" : undefined;
}

function linkedWith(program: string, path: string, workingDirectory: string): MpiImplementation | undefined {
  const file = program.includes("/") ? resolve(workingDirectory, program) : onPath(program, path);
  if (file === undefined) return undefined;
  try {
    return statSync(file).size > maxProgramBytes ? undefined : libraryOf(readFileSync(file));
  } catch {
    return undefined; // mpiexec says better than we could what is wrong with the program.
  }
}

function implementationOf(mpiexec: string): MpiImplementation | undefined {
  const { stdout } = spawnSync(mpiexec, ["--version"], {
    encoding: "utf8",
    timeout: 10_000,
    stdio: ["ignore", "pipe", "ignore"],
  });
  if (/Open MPI|OpenRTE|PRRTE/.test(stdout)) return "OpenMPI";
  return /HYDRA|MPICH|Intel\(R\) MPI/.test(stdout) ? "MPICH" : undefined;
}

function onPath(name: string, path: string): string | undefined {
  for (const folder of path.split(":")) {
    if (!isAbsolute(folder)) continue;
    const file = join(folder, name);
    try {
      accessSync(file, constants.X_OK);
      if (statSync(file).isFile()) return file;
    } catch {
      // Not in this folder.
    }
  }
  return undefined;
}
