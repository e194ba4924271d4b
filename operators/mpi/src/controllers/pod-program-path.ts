import { fileURLToPath } from "node:url";

/** The file that runs in Pods, as Node can run it: the built one, also where this module itself is run from its source. */
export const podProgram = fileURLToPath(
  new URL(import.meta.url.endsWith(".ts") ? "../../dist/launch/pod-program.js" : "../launch/pod-program.js", import.meta.url),
);
