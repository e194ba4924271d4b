import { type KeelsonProcess, startNodeProgram } from "./keelson-process.ts";

const builtModule = (name: string): string =>
  JSON.stringify(import.meta.resolve(name).replace("/src/", "/dist/").replace(/\.ts$/, ".js"));

/** Only the API server, as `keelson up` runs it. It starts fast enough for tests that kill it a hundred times. */
const program = `
  import { serveApi, systemRandom } from ${builtModule("@keelson/apiserver")};
  import { systemClock } from ${builtModule("@keelson/api-machinery/time")};
  const { port = 0, ...storage } = JSON.parse(process.argv[2]);
  await serveApi({ dataDir: process.argv[1], port, clock: systemClock, random: systemRandom, storage });
  process.stdout.write("ready\\n");
`;

/** Starts an API server in a separate process with its data in `dir`, and waits until it serves. Default port: any free port. */
export async function startApiServerProcess(
  dir: string,
  options: { readonly historyEvents?: number; readonly port?: number } = {},
): Promise<KeelsonProcess> {
  const server = startNodeProgram(["--input-type=module", "-e", program, dir, JSON.stringify(options)]);
  try {
    await server.printed(/^ready$/m, 120_000);
  } catch (error) {
    await server.stop();
    throw error;
  }
  return server;
}
