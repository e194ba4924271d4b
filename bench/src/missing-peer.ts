/** A program or library that a benchmark compares with is not available on this machine. */
export class MissingPeerError extends Error {
  override readonly name = "MissingPeerError";
  readonly code = "MissingPeer";
}

/** Measures a peer. Returns `undefined` and prints one line if it is missing. */
export async function measurePeer<T>(measure: () => Promise<T>): Promise<T | undefined> {
  try {
    return await measure();
  } catch (error) {
    if (!(error instanceof MissingPeerError)) throw error;
    process.stderr.write(`  without peer: ${error.message}\n`);
    return undefined;
  }
}
