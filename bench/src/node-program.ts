import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { MissingPeerError } from "./missing-peer.ts";

/** Exit status of a program whose peer is not available. Its standard error says why. */
export const missingPeerStatus = 3;

/**
 * Runs a module of this package in a separate Node.js process, so that measurements share neither memory nor compiled
 * code. Resolves to the JSON on the last line of its output.
 *
 * **Errors**: rejects with its standard error if the program fails; `MissingPeerError` if it exits with {@link missingPeerStatus}.
 */
export async function runNodeProgram<T>(module: string, args: readonly string[], flags: readonly string[] = []): Promise<T> {
  const file = fileURLToPath(new URL(module, import.meta.url));
  const { stdout } = await promisify(execFile)(process.execPath, [...flags, file, ...args], { timeout: 60_000 }).catch(
    (error: unknown) => {
      const { code, stderr } = error as { readonly code?: unknown; readonly stderr?: string };
      throw code === missingPeerStatus ? new MissingPeerError((stderr ?? "").trim()) : error;
    },
  );
  return JSON.parse(stdout.trim().split("\n").at(-1) ?? "") as T;
}
