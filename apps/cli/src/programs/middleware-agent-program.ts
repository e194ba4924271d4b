import { runAgent } from "@keelson/middleware/agent";
import { postgresAgent } from "@keelson/middleware-postgres";

/*
 * The agent of every built-in engine. `npm run build` bundles it into one file, which `keelson middleware copy-agent` copies into Pods.
 */
process.exitCode = await runAgent(process.argv.slice(2), [postgresAgent]);
