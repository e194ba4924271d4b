import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

/**
 * Runs a module of this package in a Node.js process of its own, so that neither the memory nor the compiled code of one
 * measurement is in another, and answers the JSON that it prints last.
 *
 * **Errors**: rejects when the program fails, with what it wrote to standard error.
 */
export async function runNodeProgram<T>(module: string, args: readonly string[], flags: readonly string[] = []): Promise<T> {
  const file = fileURLToPath(new URL(module, import.meta.url));
  const { stdout } = await promisify(execFile)(process.execPath, [...flags, file, ...args], { timeout: 60_000 });
  return JSON.parse(stdout.trim().split("\n").at(-1) ?? "") as T;
}
