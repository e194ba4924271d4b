import type { ByteStream } from "@keelson/api-machinery/transport";

/** Streams a body until it ends or `signal` is aborted. */
export function byteStream(
  body: AsyncIterable<Buffer>,
  signal: AbortSignal,
  stop: AbortController,
  explain: (error: unknown) => unknown,
): ByteStream {
  async function* chunks(): AsyncGenerator<Uint8Array, void, undefined> {
    try {
      for await (const chunk of body) yield chunk;
    } catch (error) {
      if (!signal.aborted) throw explain(error);
    } finally {
      stop.abort();
    }
  }
  const iterator = chunks();
  return { [Symbol.asyncIterator]: () => iterator, close: () => stop.abort() };
}
