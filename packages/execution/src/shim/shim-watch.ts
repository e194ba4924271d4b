import { watchAlive } from "../io/fifo-pool.ts";
import type { LaunchRequest } from "../process/launcher.ts";
import type { Shim } from "./shim.ts";

/** Interval for checking an adopted shim without a FIFO (a file system that lacks them). The only polling in this package. */
const pollIntervalMs = 5000;

/** Calls `onEnd` once when a shim that is not our child has terminated; `isAlive` checks for it. Returns a function that stops watching. */
export function watchAdopted(request: LaunchRequest, isAlive: () => boolean, onEnd: () => void): () => void {
  let stopped = false;
  let cancel = (): void => {};
  const end = (): void => {
    if (stopped) return;
    stopped = true;
    cancel();
    onEnd();
  };
  const fifo = watchAlive(request.folder.alive, end);
  const check = (): void => {
    if (!isAlive()) {
      end();
      return;
    }
    const next = request.deadlines.after(pollIntervalMs, check);
    cancel = () => next.cancel();
  };
  if (fifo === undefined) {
    check();
  } else {
    cancel = () => fifo.cancel();
    // The order matters: a shim that dies before the FIFO is open is noticed here, one that dies later by the FIFO.
    if (!isAlive()) end();
  }
  return () => {
    stopped = true;
    cancel();
  };
}

/** Calls `onEnd` when a shim that this process started has terminated. Returns a function that stops watching. */
export function watchShim(shim: Pick<Shim, "ended" | "unref">, onEnd: () => void): () => void {
  let isWatching = true;
  void shim.ended.then(() => isWatching && onEnd());
  return () => {
    isWatching = false;
    shim.unref();
  };
}
