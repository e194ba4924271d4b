import { accessSync, constants, readFileSync, realpathSync, statSync } from "node:fs";
import { dirname, isAbsolute, join, resolve } from "node:path";
import { spawnSync } from "node:child_process";
import { MpiError } from "../mpi-error.ts";
import type { LaunchOrder, MpiImplementation } from "../pod-environment.ts";

/** An installed mpiexec. */
export interface FoundMpiexec {
  readonly implementation: MpiImplementation;
  readonly path: string;
}

/** Names under which the implementations install it. Debian installs both side by side. */
const names: Readonly<Record<MpiImplementation, readonly string[]>> = {
  OpenMPI: ["mpiexec.openmpi", "mpiexec", "mpirun"],
  MPICH: ["mpiexec.mpich", "mpiexec.hydra", "mpiexec", "mpirun"],
};
const packages: Readonly<Record<MpiImplementation, string>> = { OpenMPI: "openmpi-bin", MPICH: "mpich" };
const maxProgramBytes = 64 * 1024 * 1024;

/**
 * Finds the mpiexec for an order on a PATH. For `Auto` it is that of the MPI which the program is linked with, or the first one on the
 * PATH if that is unknown (a script, a wrapper).
 *
 * **Errors**: {@link MpiError} `MpiexecNotFound`, which says what to install, and `MpiMismatch` if the program is linked with another MPI:
 * its ranks would not find each other and run as independent programs.
 */
export function findMpiexec(order: LaunchOrder, path: string, workingDirectory: string): FoundMpiexec {
  const program = order.command[0] ?? "";
  const linked = linkedWith(program, path, workingDirectory);
  if (order.implementation !== "Auto" && linked !== undefined && linked !== order.implementation) {
    const problem = `${program} is linked with ${linked}, but mpiImplementation is ${order.implementation}; use ${linked} or Auto`;
    throw new MpiError("MpiMismatch", problem);
  }
  const wanted = order.implementation === "Auto" ? linked : order.implementation;
  if (wanted !== undefined) {
    for (const name of names[wanted]) {
      const found = onPath(name, path);
      if (found !== undefined && implementationOf(found) === wanted) return { implementation: wanted, path: found };
    }
    throw new MpiError(
      "MpiexecNotFound",
      `mpiexec of ${wanted} not found on the PATH (${path}); on Debian, install it with: apt-get install ${packages[wanted]}`,
    );
  }
  for (const name of ["mpiexec", ...names.OpenMPI, ...names.MPICH]) {
    const found = onPath(name, path);
    const implementation = found === undefined ? undefined : implementationOf(found);
    if (found !== undefined && implementation !== undefined) return { implementation, path: found };
  }
  throw new MpiError(
    "MpiexecNotFound",
    `mpiexec not found on the PATH (${path}); on Debian, install it with: apt-get install openmpi-bin`,
  );
}

/** The names of `mpiexec` where Debian installs both implementations, and one of them is also called `mpiexec`. */
const debianNames: Readonly<Record<MpiImplementation, string>> = { OpenMPI: "mpiexec.openmpi", MPICH: "mpiexec.mpich" };

/**
 * The `mpiexec` that a session's command must find first, if the one on its PATH is the other implementation's, installed in the same
 * directory. Undefined if the PATH decides.
 *
 * **Errors**: {@link MpiError} `MpiMismatch` if the command names a program that is linked with the other implementation.
 */
export function sessionMpiexec(order: LaunchOrder, path: string, workingDirectory: string): string | undefined {
  const { implementation, command } = order;
  if (implementation === "Auto") return undefined;
  const own = onPath(debianNames[implementation], path);
  const first = onPath("mpiexec", path);
  if (own === undefined || first === undefined || dirname(own) !== dirname(first)) return undefined;
  for (const word of command.filter((each) => each.includes("/"))) {
    const linked = linkedWith(word, path, workingDirectory);
    if (linked === undefined || linked === implementation) continue;
    const problem = `${word} is linked with ${linked}, but mpiImplementation is ${implementation}; use ${linked}`;
    throw new MpiError("MpiMismatch", problem);
  }
  return realpathSync(own) === realpathSync(first) ? undefined : own;
}

/** The MPI that a program is linked with, by the library names in its file. */
export function libraryOf(program: Buffer): MpiImplementation | undefined {
  if (!program.subarray(0, 4).equals(Buffer.from("\x7fELF", "latin1"))) return undefined;
  // Both may name it libmpi; the version tells them apart: 12 is the ABI of MPICH and its derivatives.
  if (program.includes("libmpich.so.") || program.includes("libmpi.so.12")) return "MPICH";
  return /libmpi\.so\.\d/.test(program.toString("latin1")) ? "OpenMPI" : undefined;
}

function linkedWith(program: string, path: string, workingDirectory: string): MpiImplementation | undefined {
  const file = program.includes("/") ? resolve(workingDirectory, program) : onPath(program, path);
  if (file === undefined) return undefined;
  try {
    const status = statSync(file);
    // Reading a named pipe would block.
    return status.isFile() && status.size <= maxProgramBytes ? libraryOf(readFileSync(file)) : undefined;
  } catch {
    return undefined; // mpiexec reports what is wrong with the program.
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
      // Not in this directory.
    }
  }
  return undefined;
}
