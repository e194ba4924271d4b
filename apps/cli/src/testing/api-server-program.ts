import { currentBundle } from "@keelson/operator/bundle";
import { loadBundledProgram } from "@keelson/operator/bundled-program";
import type * as Server from "./serve-api-server.ts";

/* Only the API server: `api-server-program.js DIR OPTIONS`. Tests kill it a hundred times, so it runs from its bundle if that is current. */

const bundle = currentBundle(new URL("../../bundle/", import.meta.url), "api-server.cjs");
const program = bundle === undefined ? undefined : loadBundledProgram<typeof Server>(new URL(bundle), "api-server");
const { serveApiServer } = program?.exports ?? (await import("./serve-api-server.ts"));
await serveApiServer(process.argv.slice(2));
process.stdout.write("ready\n");
await program?.keepCompiledCode();
