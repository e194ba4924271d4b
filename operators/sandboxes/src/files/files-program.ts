import { runFileOperation } from "./sandbox-files.ts";
import { FileError, type FileOperation } from "./file-operations.ts";

/*
 * Serves the files of one sandbox to its agent. Descriptor 3 is the sandbox's root directory. The program gives up root before it reads
 * the first request, so that it has the permissions of the sandbox's user and no others.
 */

process.title = "keelson-sandbox-files";

/** Path of the root directory. */
const root = "/proc/self/fd/3";

function dropPrivileges(uid: number, gid: number): void {
  if (process.getuid?.() !== 0) return;
  process.setgroups?.([]);
  process.setgid?.(gid);
  process.setuid?.(uid);
  if (
    uid === 0 ||
    gid === 0 ||
    process.getuid() !== uid ||
    process.getgid?.() !== gid ||
    process.getgroups?.().some((id) => id !== gid)
  )
    throw new TypeError("still has the permissions of root");
}

const [uid, gid] = process.argv.slice(2).map(Number);
dropPrivileges(uid ?? 0, gid ?? 0);
// New files have the mode that the operation sets.
process.umask(0o022);

process.on("message", ({ id, operation }: { readonly id: number; readonly operation: FileOperation }) => {
  try {
    process.send?.({ id, result: runFileOperation(root, operation) });
  } catch (error) {
    const { code, message } = error instanceof FileError ? error : new FileError("Failed", String(error));
    process.send?.({ id, code, message });
  }
});

// The agent has exited, or no longer needs the files.
process.once("disconnect", () => process.exit(0));
