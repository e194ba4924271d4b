import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it } from "vitest";
import { MpiError } from "../mpi-error.ts";
import { findMpiexec, libraryOf } from "./find-mpiexec.ts";

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

it("says what to install if there is no mpiexec", () => {
  const order = { implementation: "MPICH", ranks: 1, command: ["./pi"] } as const;
  expect(() => findMpiexec(order, "/nonexistent", "/")).toThrow(MpiError);
  expect(() => findMpiexec(order, "/nonexistent", "/")).toThrow(/apt-get install mpich/);
  expect(() => findMpiexec({ ...order, implementation: "Auto" }, "/nonexistent", "/")).toThrow(/openmpi-bin/);
});
