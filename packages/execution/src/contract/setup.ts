import { readFileSync } from "node:fs";
import { readFile } from "node:fs/promises";
import type { Driver, ExecutionError, Program, ProgramSpec } from "../driver.ts";

/*
 * The contract of every driver. Test programs signal readiness through a file (`ready`), which the test
 * waits for, so no test sleeps.
 */

/** A fresh directory and a way to open drivers on it. */
export interface DriverContractSetup {
  readonly dir: string;
  open(): Promise<Driver>;
  /** The host pid of a process that program `id` knows as `pid`. Default: the same. */
  outsidePid?(id: string, pid: number): number;
}

/** One rule of the contract. */
export interface DriverContractCase {
  readonly title: string;
  run(setup: DriverContractSetup): Promise<void>;
}

/** Returns a predicate of errors with this code. */
export const isError = (code: ExecutionError["code"]) => (error: unknown) =>
  typeof error === "object" && error !== null && "code" in error && error.code === code;

/** A command that runs a shell script. */
export const shell = (script: string): ProgramSpec["command"] => ["/bin/sh", "-c", script];

/** Waits until a file has a complete line and returns its content. */
export async function content(path: string): Promise<string> {
  for (;;) {
    const text = await readFile(path, "utf8").catch(() => "");
    if (text.endsWith("\n")) return text.trim();
    await new Promise((resolve) => setImmediate(resolve));
  }
}

/** Runs `use` with a driver and closes it afterwards. */
export async function withDriver(setup: DriverContractSetup, use: (driver: Driver) => Promise<void>): Promise<void> {
  const driver = await setup.open();
  try {
    await use(driver);
  } finally {
    await Promise.all(driver.list().map((program) => program.stop({ graceMs: 0 })));
    await driver.close();
  }
}

/** A case of the contract that runs with its own driver. */
export const rule = (
  title: string,
  use: (driver: Driver, setup: DriverContractSetup) => Promise<void>,
): DriverContractCase => ({
  title,
  run: (setup) => withDriver(setup, (driver) => use(driver, setup)),
});

/** Runs a program to its end. Returns it with its output. */
export async function end(
  driver: Driver,
  spec: Omit<ProgramSpec, "id">,
  id = "a",
): Promise<{ program: Program; out: string; error: string }> {
  const program = await driver.start({ ...spec, id });
  await program.exited();
  return { program, out: readFileSync(program.logs.stdout, "utf8"), error: readFileSync(program.logs.stderr, "utf8") };
}

/** Runs a program to its end. Returns its exit. */
export const exitOf = async (driver: Driver, spec: Omit<ProgramSpec, "id">) => (await end(driver, spec)).program.exited();
