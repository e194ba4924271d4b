import { type FSWatcher, watch } from "node:fs";
import { open } from "node:fs/promises";
import type { Program } from "@keelson/execution";

/** Bytes per read. */
const chunkBytes = 64 * 1024;

/**
 * Reads a program's output, and with `follow` new output until the program exits. Waits with inotify instead of polling. Continues at the
 * start of a rotated file.
 */
export async function* readLog(
  program: Pick<Program, "logs" | "state" | "onExit">,
  options: { follow: boolean; signal: AbortSignal },
): AsyncGenerator<Buffer> {
  const path = program.logs.stdout;
  let wake: () => void = () => {};
  let isDirty = false;
  let hasEnded = program.state.kind === "exited";
  const notify = (): void => {
    isDirty = true;
    wake();
  };
  const file = await open(path, "r");
  let watcher: FSWatcher | undefined;
  const forget = program.onExit(() => {
    hasEnded = true;
    notify();
  });
  options.signal.addEventListener("abort", notify, { once: true });
  try {
    if (options.follow) watcher = watch(path, notify).on("error", notify);
    let position = 0;
    while (!options.signal.aborted) {
      isDirty = false;
      const last = hasEnded;
      const { size } = await file.stat();
      if (size < position) position = 0;
      while (position < size && !options.signal.aborted) {
        const { buffer, bytesRead } = await file.read(Buffer.allocUnsafe(chunkBytes), 0, chunkBytes, position);
        if (bytesRead === 0) break;
        position += bytesRead;
        yield buffer.subarray(0, bytesRead);
      }
      if (last || !options.follow) return;
      if (!isDirty) await new Promise<void>((resolve) => (wake = resolve));
    }
  } finally {
    options.signal.removeEventListener("abort", notify);
    forget();
    watcher?.close();
    await file.close();
  }
}
