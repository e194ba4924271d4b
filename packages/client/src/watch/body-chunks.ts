import type { Readable } from "node:stream";

/** Maximum number of chunks buffered for the reader. Beyond it, the connection is paused. */
const maxBuffered = 16;

/**
 * The chunks of a body. Cheaper than iterating the body, which concatenates chunks and takes several turns of the
 * event loop per chunk. Ends when the body ends or is destroyed, and throws its error.
 */
export async function* bodyChunks(body: Readable): AsyncGenerator<Buffer, void, undefined> {
  const waiting: Buffer[] = [];
  let state: "open" | "ended" | { readonly error: unknown } = "open";
  let wake: () => void = () => {};
  const onData = (chunk: Buffer): void => {
    if (waiting.push(chunk) >= maxBuffered) body.pause();
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
