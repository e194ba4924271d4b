/** What a first and a second Ctrl-C do. */
export interface Shutdown {
  /** Fires on the first SIGINT or SIGTERM. */
  readonly signal: AbortSignal;
  /** Fires by itself, for an end that nobody asked for from outside. */
  request(reason: string): void;
  dispose(): void;
}

/** Turns SIGINT and SIGTERM into an abort: the first asks for a clean stop, the second ends the process at once. */
export function listenForShutdown(): Shutdown {
  const controller = new AbortController();
  const onSignal = (name: NodeJS.Signals): void => {
    if (controller.signal.aborted) process.exit(name === "SIGINT" ? 130 : 143);
    controller.abort(new Error(`got ${name}`));
  };
  process.on("SIGINT", onSignal);
  process.on("SIGTERM", onSignal);
  return {
    signal: controller.signal,
    request: (reason) => controller.abort(new Error(reason)),
    dispose() {
      process.off("SIGINT", onSignal);
      process.off("SIGTERM", onSignal);
    },
  };
}

/** Resolves when the signal fires; at once when it has. */
export function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener("abort", () => resolve(), { once: true });
  });
}
