import { watchAlive } from "../io/fifo-pool.ts";
import type { LaunchRequest } from "../process/launcher.ts";

/** The pause between two looks at an adopted shim that holds no FIFO (a file system without them). The only polling here. */
const lookEveryMs = 5000;

/** Calls `onEnd` once when a shim that is not our child has ended; `isHere` looks for it. What this answers stops that. */
export function watchAdopted(request: LaunchRequest, isHere: () => boolean, onEnd: () => void): () => void {
  let stopped = false;
  let cancel = (): void => {};
  const end = (): void => {
    if (stopped) return;
    stopped = true;
    cancel();
    onEnd();
  };
  const fifo = watchAlive(request.folder.alive, end);
  const look = (): void => {
    if (!isHere()) {
      end();
      return;
    }
    const next = request.deadlines.after(lookEveryMs, look);
    cancel = () => next.cancel();
  };
  if (fifo === undefined) {
    look();
  } else {
    cancel = () => fifo.cancel();
    // The order matters: one that dies before the FIFO is open is seen here, one that dies after it there.
    if (!isHere()) end();
  }
  return () => {
    stopped = true;
    cancel();
  };
}
