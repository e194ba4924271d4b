/** Runs `start`; if its port is in use, runs `again` with a free one. */
export async function withFreePort<T>(start: () => Promise<T>, again: (() => Promise<T>) | undefined): Promise<T> {
  try {
    return await start();
  } catch (error) {
    if (again === undefined || !isPortInUse(error)) throw error;
    return again();
  }
}

function isPortInUse(error: unknown): boolean {
  for (let cause = error; cause instanceof Error; cause = cause.cause) {
    if ("code" in cause && cause.code === "EADDRINUSE") return true;
  }
  return false;
}
