import type { Client } from "@keelson/client";

/** Options of {@link readLogTail}. */
export interface LogTailOptions {
  readonly container: string;
  readonly maxBytes: number;
  /** Maximum number of lines. Default: 5,000. */
  readonly tailLines?: number;
  readonly signal: AbortSignal;
}

const defaultTailLines = 5_000;

/** The last bytes of a container's log; of its previous run if it is waiting to be restarted. */
export async function readLogTail(
  client: Client,
  key: { readonly namespace: string | undefined; readonly name: string },
  { container, maxBytes, tailLines = defaultTailLines, signal }: LogTailOptions,
): Promise<string> {
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of await client.podLog(key, { container, tailLines, signal })) {
    chunks.push(chunk);
    size += chunk.length;
    for (let first = chunks[0]; first !== undefined && size - first.length >= maxBytes; first = chunks[0]) {
      size -= first.length;
      chunks.shift();
    }
  }
  return Buffer.concat(chunks).subarray(-maxBytes).toString("utf8");
}
