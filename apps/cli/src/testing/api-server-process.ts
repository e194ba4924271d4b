import { type KeelsonProcess, startNodeProgram } from "./keelson-process.ts";

const built = (name: string): string => JSON.stringify(import.meta.resolve(name).replace("/src/index.ts", "/dist/index.js"));

/** The API server as `keelson up` runs it, and nothing else: it starts fast enough to be killed a hundred times. */
const program = `
  import { serveApi, systemRandom } from ${built("@keelson/apiserver")};
  import { systemClock } from ${built("@keelson/api-machinery")};
  const { port = 0, ...storage } = JSON.parse(process.argv[2]);
  await serveApi({ dataDir: process.argv[1], port, clock: systemClock, random: systemRandom, storage });
  process.stdout.write("ready\\n");
`;

/** Starts an API server in `dir` as a process of its own and waits until it serves. It ends with its scope. Default port: a free one. */
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
