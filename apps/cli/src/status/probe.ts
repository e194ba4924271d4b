const timeoutMs = 5_000;

/** Asks a probe of `keelson up`. Resolves to why it is not ready; undefined if it is. */
export async function probe(url: string): Promise<string | undefined> {
  try {
    const response = await fetch(url, { signal: AbortSignal.timeout(timeoutMs) });
    if (response.ok) return undefined;
    const failed = (await response.text()).split("\n").filter((line) => line.startsWith("[-]"));
    return failed.length === 0 ? `${url}: status ${response.status}` : failed.map((line) => line.slice(3)).join(", ");
  } catch (error) {
    const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error;
    return `${url}: ${cause instanceof Error ? cause.message : String(cause)}`;
  }
}
