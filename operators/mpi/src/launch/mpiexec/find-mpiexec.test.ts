import { execFileSync, spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { MpiError } from "../mpi-error.ts";
import { findMpiexec, libraryOf, sessionMpiexec } from "./find-mpiexec.ts";

it.each([
  ["MPICH of Debian", "\x7fELF..libmpich.so.12\0libc.so.6", "MPICH"],
  ["MPICH elsewhere", "\x7fELF..libmpi.so.12\0libc.so.6", "MPICH"],
  ["Open MPI", "\x7fELF..libmpi.so.40\0libc.so.6", "OpenMPI"],
  ["no MPI", "\x7fELF..libc.so.6", undefined],
  ["a script that speaks of one", "#!/bin/sh\n# libmpich.so.12", undefined],
])("tells the MPI of a program linked with %s", (_, content, expected) => {
  expect(libraryOf(Buffer.from(content, "latin1"))).toBe(expected);
});

it("rejects a program that is linked with another MPI", () => {
  const folder = mkdtempSync(join(tmpdir(), "find-mpiexec-"));
  try {
    writeFileSync(join(folder, "pi"), Buffer.from("\x7fELF..libmpi.so.40\0", "latin1"));
    const order = { implementation: "MPICH", ranks: 1, command: ["./pi"] } as const;
    expect(() => findMpiexec(order, "/nonexistent", folder)).toThrow(
      "./pi is linked with OpenMPI, but mpiImplementation is MPICH; use OpenMPI or Auto",
    );
  } finally {
    rmSync(folder, { recursive: true });
  }
});

it("does not read a named pipe", () => {
  const folder = mkdtempSync(join(tmpdir(), "find-mpiexec-"));
  execFileSync("mkfifo", [join(folder, "pi")]);
  // If the pipe is read, the reader finds a program of another MPI instead of blocking.
  const writer = spawn("sh", ["-c", "printf '\\177ELF..libmpi.so.40' >pi"], { cwd: folder, stdio: "ignore" });
  try {
    const order = { implementation: "MPICH", ranks: 1, command: ["./pi"] } as const;
    expect(() => findMpiexec(order, "/nonexistent", folder)).toThrow(/apt-get install mpich/);
  } finally {
    writer.kill("SIGKILL");
    rmSync(folder, { recursive: true });
  }
});

it("says what to install if there is no mpiexec", () => {
  const order = { implementation: "MPICH", ranks: 1, command: ["./pi"] } as const;
  expect(() => findMpiexec(order, "/nonexistent", "/")).toThrow(MpiError);
  expect(() => findMpiexec(order, "/nonexistent", "/")).toThrow(/apt-get install mpich/);
  expect(() => findMpiexec({ ...order, implementation: "Auto" }, "/nonexistent", "/")).toThrow(/openmpi-bin/);
});

describe("the mpiexec of a session, where both implementations are installed", () => {
  let folder: string;
  let both: string;
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), "find-mpiexec-"));
    both = join(folder, "both");
    mkdirSync(both);
    for (const name of ["mpiexec.openmpi", "mpiexec.mpich"]) writeFileSync(join(both, name), "#!/bin/sh\n", { mode: 0o755 });
    symlinkSync("mpiexec.openmpi", join(both, "mpiexec"));
    writeFileSync(join(folder, "pi"), Buffer.from("\x7fELF..libmpich.so.12\0", "latin1"));
  });
  afterEach(() => rmSync(folder, { recursive: true }));

  const order = (implementation: "OpenMPI" | "MPICH", ...command: readonly string[]) => ({ implementation, ranks: 0, command });

  it("is that of the order, if the PATH has the other one", () => {
    expect(sessionMpiexec(order("MPICH", "mpiexec", "./pi"), both, folder)).toBe(join(both, "mpiexec.mpich"));
    expect(sessionMpiexec(order("OpenMPI", "mpiexec", "./cat"), both, folder)).toBeUndefined();
  });

  it("is that of the PATH, if it is in another directory or the only one", () => {
    const own = join(folder, "own");
    mkdirSync(own);
    writeFileSync(join(own, "mpiexec"), "#!/bin/sh\n", { mode: 0o755 });
    expect(sessionMpiexec(order("MPICH", "mpiexec"), `${own}:${both}`, folder)).toBeUndefined();
    expect(sessionMpiexec(order("MPICH", "mpiexec"), own, folder)).toBeUndefined();
  });

  it("is rejected for a program of the other implementation, whose ranks would run as independent programs", () => {
    expect(() => sessionMpiexec(order("OpenMPI", "mpiexec", "-n", "2", "./pi"), both, folder)).toThrow(
      "./pi is linked with MPICH, but mpiImplementation is OpenMPI; use MPICH",
    );
  });
});
