import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { killProcessesOf } from "./processes-of.ts";

/** A new folder that goes with its scope, and what still runs in it: `using folder = temporaryFolder()`. */
export function temporaryFolder(): { readonly path: string } & Disposable {
  const path = mkdtempSync(join(tmpdir(), "keelson-"));
  return {
    path,
    [Symbol.dispose]() {
      killProcessesOf(path);
      rmSync(path, { recursive: true, force: true, maxRetries: 3 });
    },
  };
}
