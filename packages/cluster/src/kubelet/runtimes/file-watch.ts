import { existsSync, type FSWatcher, statSync, watch } from "node:fs";
import { dirname } from "node:path";

/** Something that is being watched. */
export interface FileWatch {
  close(): void;
}

/**
 * Calls `onChange` when a file comes, goes, or is another one of its name, also where folders above it do, until it is closed. Says
 * nothing about how it is at first.
 */
export function watchFile(path: string, onChange: (isThere: boolean) => void): FileWatch {
  let known = identityOf(path);
  let isClosed = false;
  let watcher: FSWatcher | undefined;
  const look = (): void => {
    if (isClosed) return;
    watcher?.close();
    let folder = dirname(path);
    while (!existsSync(folder) && folder !== dirname(folder)) folder = dirname(folder);
    try {
      watcher = watch(folder, { persistent: false }, () => look());
      watcher.on("error", () => look());
    } catch {
      // It went between the two lines; the next one above is there.
      if (folder !== dirname(folder)) queueMicrotask(look);
      return;
    }
    // What came before the watch was there is seen now, as is a folder that is nearer to the file.
    const found = identityOf(path);
    if (found !== known) {
      known = found;
      onChange(found !== undefined);
    } else if (folder !== dirname(path) && existsSync(dirname(path))) look();
  };
  look();
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
