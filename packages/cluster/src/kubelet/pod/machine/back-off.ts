const firstMs = 10_000;
const maxMs = 300_000;

/** The restart delay of a container after `failures` restarts: none the first time, then 10 s, doubled up to 5 min. */
export function backOffMs(failures: number): number {
  return failures <= 0 ? 0 : Math.min(firstMs * 2 ** (failures - 1), maxMs);
}
