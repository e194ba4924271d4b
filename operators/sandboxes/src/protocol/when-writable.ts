import type { Writable } from "node:stream";

/** Resolves when a stream whose `write` returned false has drained, or is closed. Leaves no listeners. */
export function whenWritable(stream: Writable): Promise<void> {
  return new Promise((resolve) => {
    const settle = (): void => {
      stream.off("drain", settle).off("close", settle);
      resolve();
    };
    if (stream.destroyed) resolve();
    else stream.on("drain", settle).on("close", settle);
  });
}
