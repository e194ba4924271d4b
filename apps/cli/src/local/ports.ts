import type { FlagDefinition, FlagValues } from "@keelson/operator/flags";

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

/** The port of a URL with an explicit port. */
export function portOf(url: string): number {
  return Number(new URL(url).port);
}

/** Values of the port flags whose servers listen at these addresses, so that the servers return to the same ports. */
export function portsOf(flags: readonly FlagDefinition[], endpoints: Readonly<Record<string, string>>): FlagValues {
  return Object.fromEntries(
    flags.flatMap(({ name, endpoint }) => {
      const url = endpoint === undefined ? undefined : endpoints[endpoint];
      return url === undefined || new URL(url).port === "" ? [] : [[name, new URL(url).port]];
    }),
  );
}
