import type { Transport } from "@keelson/api-machinery/transport";

/** A list of another cluster is too long. */
class ListLimitError extends Error {
  override readonly name = "ListLimitError";
  readonly code = "ListLimit";
}

/** A transport that rejects further pages of a list once its pages have `maxBytes` bytes in total. */
export function limitLists(transport: Transport, maxBytes: number): Transport {
  /** Bytes of the pages before a `continue` token. */
  const received = new Map<string, number>();
  return {
    async request(request) {
      const token = request.query?.["continue"];
      const before = token === undefined ? 0 : (received.get(token) ?? 0);
      if (token !== undefined) received.delete(token);
      const response = await transport.request(request);
      const total = before + (response.wire?.receivedBytes ?? 0);
      const next = continueOf(response.body);
      if (next === undefined) return response;
      if (total > maxBytes) throw new ListLimitError(`${request.path}: the list has more than ${maxBytes} bytes`);
      // Abandoned lists are forgotten with the oldest tokens.
      const [oldest] = received.keys();
      if (received.size >= 1_000 && oldest !== undefined) received.delete(oldest);
      received.set(next, total);
      return response;
    },
    watch: (request) => transport.watch(request),
    close: () => transport.close(),
  };
}

/** The token of the next page. */
function continueOf(body: unknown): string | undefined {
  const token = (body as { readonly metadata?: { readonly continue?: unknown } } | null)?.metadata?.continue;
  return typeof token === "string" && token !== "" ? token : undefined;
}
