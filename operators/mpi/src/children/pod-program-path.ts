import { statSync } from "node:fs";
import { fileURLToPath } from "node:url";

const dist = new URL(import.meta.url.endsWith(".ts") ? "../../dist/" : "../", import.meta.url);

/**
 * Path of the built program for Pods, even if this module runs from source: the bundle, which starts in three quarters of the time, if it is
 * newer than the build.
 */
export const podProgram = fileURLToPath(
  new URL(isNewer("launch/pod-program.cjs", ".tsbuildinfo") ? "launch/pod-program.cjs" : "launch/pod-program.js", dist),
);

/** Whether both files exist, and the first one was written later. */
function isNewer(first: string, second: string): boolean {
  const [firstMs, secondMs] = [first, second].map((path) => statSync(new URL(path, dist), { throwIfNoEntry: false })?.mtimeMs);
  return firstMs !== undefined && secondMs !== undefined && firstMs > secondMs;
}
