import { execFile } from "node:child_process";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { promisify } from "node:util";

/** Runs a Node.js program in a directory and resolves to its output. Rejects with the output if it fails. */
export async function output(cwd: string, ...args: readonly string[]): Promise<string> {
  try {
    return (await promisify(execFile)(process.execPath, args, { cwd, env: { ...process.env, NO_COLOR: "1" } })).stdout;
  } catch (error) {
    throw new Error(`${args.join(" ")}: ${String((error as { stdout?: unknown }).stdout)}`, { cause: error });
  }
}

/** Path of a package's program, as `npx` would run it. */
function program(name: string, file: string): string {
  return join(dirname(createRequire(import.meta.url).resolve(`${name}/package.json`)), file);
}

/** The TypeScript compiler. */
export const tsc = program("typescript", "bin/tsc");
/** The test runner. */
export const vitest = program("vitest", "vitest.mjs");
