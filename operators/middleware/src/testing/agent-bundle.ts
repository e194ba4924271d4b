import { basename } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { currentBundle } from "@keelson/operator/bundle";

/** Path of a package's built agent in the bundle if that is current, otherwise `program` itself. The bundle loads in a third of the time. */
export function bundledAgent(program: string): string {
  const folder = program.slice(0, program.lastIndexOf("/dist/"));
  const bundled = currentBundle(new URL("../../dist/bundle/", import.meta.url), `${basename(folder)}.js`);
  return fileURLToPath(bundled ?? pathToFileURL(program));
}
