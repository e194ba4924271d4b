const firstMs = 10_000;
const longestMs = 300_000;

/**
 * How long after its end a container is started again that has been started again `failures` times already: at once the first
 * time, then 10 s, doubled up to 5 min.
 */
export function backOffMs(failures: number): number {
  return failures <= 0 ? 0 : Math.min(firstMs * 2 ** (failures - 1), longestMs);
}
