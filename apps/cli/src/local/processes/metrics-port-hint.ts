/** Adds the flag's name to a listen error. */
export async function withMetricsPortHint(address: Promise<string>): Promise<string> {
  try {
    return await address;
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    throw new Error(`--metrics-port: ${message}; choose another port, 0 for a free one, or off`, { cause: error });
  }
}
