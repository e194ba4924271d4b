import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { killProcessesOf } from "./processes-of.ts";

/** Creates a directory that is removed at the end of its scope together with all processes that use it: `using directory = temporaryFolder()`. */
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
