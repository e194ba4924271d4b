/** An `AbortController` that is made when somebody looks at its signal: few requests have anybody who does, and one costs much. */
export interface LazyAbort {
  readonly signal: AbortSignal;
  /** The first reason counts. */
  abort(reason: Error): void;
}

/** Makes a {@link LazyAbort}. */
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
