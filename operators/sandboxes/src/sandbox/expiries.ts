import { existsSync, readFileSync } from "node:fs";
import { rename, writeFile } from "node:fs/promises";
import { isJsonObject } from "@keelson/api-machinery";
import type { Clock, Timer } from "@keelson/api-machinery/time";
import type { Logger } from "@keelson/controller";

/** What {@link Expiries} are made from. */
export interface ExpiriesOptions {
  /** File with the times that were changed since. */
  readonly file: string;
  readonly clock: Clock;
  readonly log: Logger;
  /** Ends one whose time has come. Called once for a time. */
  readonly end: (sandboxId: string) => Promise<void>;
}

/**
 * When the sandboxes of an agent expire. The agent keeps these times by itself, so that they hold while nobody talks to it.
 *
 * **Guarantees**: a time that was set is on disk when `set` resolves; one timer runs, for the nearest.
 */
export interface Expiries {
  /** Milliseconds since the epoch; undefined: never. */
  of(sandboxId: string): number | undefined;
  /** Takes over what a sandbox was made with; a time that was set since, by this process or an earlier one, goes before it. */
  adopt(sandboxId: string, madeWithMs: number | undefined): void;
  set(sandboxId: string, atMs: number | undefined): Promise<void>;
  forget(sandboxId: string): Promise<void>;
  stop(): void;
}

/**
 * How much later than the operator an agent ends a sandbox whose time has come. The operator, where it is there, ends it in order;
 * and clocks of two machines differ.
 */
export const expiryGraceMs = 5_000;

/** The longest wait before the clock is read again: it may be set meanwhile. */
const longestWaitMs = 3_600_000;

/** Opens the times that a file has. */
export function openExpiries({ file, clock, log, end }: ExpiriesOptions): Expiries {
  const changed = readTimes(file);
  const times = new Map<string, number>();
  let timer: Timer | undefined;
  let writing = Promise.resolve();

  const note = (sandboxId: string, atMs: number | undefined): void => {
    if (atMs === undefined) times.delete(sandboxId);
    else times.set(sandboxId, atMs);
    arm();
  };

  function arm(): void {
    timer?.cancel();
    timer = undefined;
    if (times.size === 0) return;
    const nearest = Math.min(...times.values()) + expiryGraceMs;
    timer = clock.setTimer(Math.min(Math.max(nearest - clock.now(), 0), longestWaitMs), look, { background: true });
  }

  function look(): void {
    const now = clock.now();
    for (const [sandboxId, atMs] of times) {
      if (atMs + expiryGraceMs > now) continue;
      times.delete(sandboxId);
      log.info({ sandboxId }, "a sandbox is ended: its time has come, and nobody ended it");
      end(sandboxId).catch((error: unknown) => log.error({ err: error, sandboxId }, "a sandbox could not be ended"));
    }
    arm();
  }

  const save = (): Promise<void> => {
    const attempt = writing.then(async () => {
      await writeFile(`${file}.new`, JSON.stringify(Object.fromEntries(changed)), { mode: 0o600, flush: true });
      await rename(`${file}.new`, file);
    });
    writing = attempt.catch(() => {});
    return attempt;
  };

  return {
    of: (sandboxId) => (changed.has(sandboxId) ? (changed.get(sandboxId) ?? undefined) : times.get(sandboxId)),
    adopt: (sandboxId, madeWithMs) =>
      note(sandboxId, changed.has(sandboxId) ? (changed.get(sandboxId) ?? undefined) : madeWithMs),
    async set(sandboxId, atMs) {
      changed.set(sandboxId, atMs ?? null);
      note(sandboxId, atMs);
      await save();
    },
    async forget(sandboxId) {
      note(sandboxId, undefined);
      if (changed.delete(sandboxId)) await save();
    },
    stop() {
      timer?.cancel();
      times.clear();
    },
  };
}

/** A file that a crash or a person has damaged says nothing. */
function readTimes(file: string): Map<string, number | null> {
  if (!existsSync(file)) return new Map();
  let value: unknown;
  try {
    value = JSON.parse(readFileSync(file, "utf8"));
  } catch {
    return new Map();
  }
  if (!isJsonObject(value)) return new Map();
  return new Map(
    Object.entries(value).filter((entry): entry is [string, number | null] => entry[1] === null || Number.isFinite(entry[1])),
  );
}
