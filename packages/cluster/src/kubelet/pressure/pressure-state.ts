/** Whether a node is low on disk space. */
export type PressureState =
  | { readonly kind: "relaxed" }
  /** A threshold was met at `lastMetAt`, on the monotonic clock. */
  | { readonly kind: "pressure"; readonly lastMetAt: number };

/** The next state. Pressure ends when no threshold was met for `transitionMs`, so that Pods do not come and go with it. */
export function stepPressure(state: PressureState, isMet: boolean, now: number, transitionMs: number): PressureState {
  if (isMet) return { kind: "pressure", lastMetAt: now };
  if (state.kind === "pressure" && now - state.lastMetAt < transitionMs) return state;
  return { kind: "relaxed" };
}
