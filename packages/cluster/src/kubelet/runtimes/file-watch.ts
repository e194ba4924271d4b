import { existsSync, type FSWatcher, statSync, watch } from "node:fs";
import { dirname } from "node:path";

/** A watch on a file. */
export interface FileWatch {
  close(): void;
}

/**
 * Calls `onChange` when a file appears, disappears or is replaced, including through changes of its parent directories, until closed. The
 * initial state is not reported.
 */
export function watchFile(path: string, onChange: (exists: boolean) => void): FileWatch {
  let known = identityOf(path);
  let isClosed = false;
  let watcher: FSWatcher | undefined;
  const check = (): void => {
    if (isClosed) return;
    watcher?.close();
    let folder = dirname(path);
    while (!existsSync(folder) && folder !== dirname(folder)) folder = dirname(folder);
    try {
      watcher = watch(folder, { persistent: false }, () => check());
      watcher.on("error", () => check());
    } catch {
      // The directory was removed in between; its parent is watched instead.
      if (folder !== dirname(folder)) queueMicrotask(check);
      return;
    }
    // Catches a file, or a directory closer to it, that appeared before the watch was established.
    const found = identityOf(path);
    if (found !== known) {
      known = found;
      onChange(found !== undefined);
    } else if (folder !== dirname(path) && existsSync(dirname(path))) check();
  };
  check();
  return {
    close() {
      isClosed = true;
      watcher?.close();
    },
  };
}

function identityOf(path: string): string | undefined {
  const found = statSync(path, { throwIfNoEntry: false });
  return found === undefined ? undefined : `${found.ino} ${found.birthtimeMs}`;
}
