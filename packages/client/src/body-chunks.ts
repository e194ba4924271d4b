import type { Readable } from "node:stream";

/** Chunks that may wait for who reads; at more, the connection is not read on. */
const mostWaiting = 16;

/**
 * The chunks of a body as they come. Cheaper than iterating the body, which copies what came together and takes some turns of the
 * event loop a chunk. Ends with the body, or when that is destroyed; throws what breaks it.
 */
export async function* bodyChunks(body: Readable): AsyncGenerator<Buffer, void, undefined> {
  const waiting: Buffer[] = [];
  let state: "open" | "ended" | { readonly error: unknown } = "open";
  let wake: () => void = () => {};
  const onData = (chunk: Buffer): void => {
    if (waiting.push(chunk) >= mostWaiting) body.pause();
    wake();
  };
  const settle = (next: typeof state): void => {
    if (state === "open") state = next;
    wake();
  };
  const onEnd = (): void => settle("ended");
  const onError = (error: unknown): void => settle({ error });
  body.on("end", onEnd).on("close", onEnd).on("error", onError).on("data", onData);
  try {
    if (body.errored) onError(body.errored);
    else if (body.destroyed) onEnd();
    for (;;) {
      for (const chunk of waiting.splice(0)) yield chunk;
      if (waiting.length > 0) continue;
      if (state !== "open") break;
      if (body.isPaused()) body.resume();
      await new Promise<void>((resolve) => {
        wake = resolve;
      });
    }
    if (typeof state === "object") throw (state as { readonly error: unknown }).error;
  } finally {
    body.off("end", onEnd).off("close", onEnd).off("error", onError).off("data", onData);
  }
}
