import { jsonEquals } from "@keelson/api-machinery";
import type { Clock, Timer } from "@keelson/api-machinery/time";
import type { Engine, EngineRole } from "./engine.ts";

/** What a program is, for those who wait for it to change. */
export interface RoleFeed {
  /** Asks the program now. Rejects where it does not answer; either way whoever waits for a change hears of it. */
  look(): Promise<EngineRole>;
  /** What it is, at once and again after each change, until the signal fires. Changes that nobody was quick enough for are one. */
  changes(signal: AbortSignal): AsyncGenerator<EngineRole>;
}

/** How soon to ask a program again that is on its way to be in sync, and one that is well. */
const unsettledMs = 50;
const settledMs = 1_000;

/**
 * Makes a {@link RoleFeed}. Redis tells nobody when its link comes up or who promoted it, so its own agent asks it, over
 * loopback and only while somebody wants to know; nobody else has to ask again and again.
 */
export function createRoleFeed(engine: Pick<Engine, "role">, clock: Clock): RoleFeed {
  let last: EngineRole | undefined;
  let version = 0;
  let timer: Timer | undefined;
  const waiting = new Set<() => void>();

  function take(next: EngineRole): void {
    const isSame = last !== undefined && jsonEquals(essence(last), essence(next));
    last = next;
    if (!isSame) {
      version += 1;
      for (const wake of waiting) wake();
    }
    arm();
  }

  function arm(): void {
    timer?.cancel();
    timer = undefined;
    if (waiting.size === 0) return;
    const isSettled = last !== undefined && last.role !== "unknown" && last.info.isInSync !== "false";
    timer = clock.setTimer(isSettled ? settledMs : unsettledMs, () => void look().catch(() => undefined), { background: true });
  }

  async function look(): Promise<EngineRole> {
    try {
      const role = await engine.role();
      take(role);
      return role;
    } catch (error) {
      take({ role: "unknown", info: {} });
      throw error;
    }
  }

  return {
    look,
    async *changes(signal) {
      let wake = (): void => undefined;
      const onChange = (): void => wake();
      waiting.add(onChange);
      signal.addEventListener("abort", onChange, { once: true });
      try {
        await look().catch(() => undefined);
        let seen = 0;
        while (!signal.aborted) {
          if (seen !== version && last !== undefined) {
            seen = version;
            yield last;
          } else {
            await new Promise<void>((resolve) => {
              wake = resolve;
            });
          }
        }
      } finally {
        waiting.delete(onChange);
        if (waiting.size === 0) timer?.cancel();
        signal.removeEventListener("abort", onChange);
      }
    },
  };
}

/** A role without what changes with every write. */
function essence({ role, info }: EngineRole): object {
  return { role, info: { ...info, offset: "" } };
}
