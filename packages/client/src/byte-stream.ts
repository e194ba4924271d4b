import type { ByteStream } from "@keelson/api-machinery/transport";

/** A body as it comes; nothing more comes once `signal` fires. */
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
