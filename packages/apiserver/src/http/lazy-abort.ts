/** An `AbortController` created on first use of its signal. Few requests use it, and creating one is expensive. */
export interface LazyAbort {
  readonly signal: AbortSignal;
  /** Aborts. Only the first reason is kept. */
  abort(reason: Error): void;
}

/** Creates a {@link LazyAbort}. */
export function createLazyAbort(): LazyAbort {
  let controller: AbortController | undefined;
  let ended: { readonly reason: Error } | undefined;
  return {
    get signal() {
      controller ??= new AbortController();
      if (ended !== undefined) controller.abort(ended.reason);
      return controller.signal;
    },
    abort(reason) {
      ended ??= { reason };
      controller?.abort(reason);
    },
  };
}
