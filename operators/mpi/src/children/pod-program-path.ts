import { fileURLToPath } from "node:url";

/** Path of the built program for Pods, also if this module runs from source. */
export const podProgram = fileURLToPath(
  new URL(import.meta.url.endsWith(".ts") ? "../../dist/launch/pod-program.js" : "../launch/pod-program.js", import.meta.url),
);
