import { fileURLToPath } from "node:url";
import { lateOptimization } from "../local/processes/v8-options.ts";
import { type KeelsonProcess, startNodeProgram } from "./keelson-process.ts";

const program = fileURLToPath(new URL("../../dist/testing/api-server-program.js", import.meta.url));

/** Starts an API server in a separate process with its data in `dir`, and waits until it serves. Default port: any free port. */
export async function startApiServerProcess(
  dir: string,
  options: { readonly historyEvents?: number; readonly port?: number } = {},
): Promise<KeelsonProcess> {
  const server = startNodeProgram([...lateOptimization(), program, dir, JSON.stringify(options)]);
  try {
    await server.printed(/^ready$/m, 120_000);
  } catch (error) {
    await server.stop();
    throw error;
  }
  return server;
}
