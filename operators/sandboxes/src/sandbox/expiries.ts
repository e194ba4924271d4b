import { existsSync, readFileSync } from "node:fs";
import { isJsonObject } from "@keelson/api-machinery";
import type { Clock, Timer } from "@keelson/api-machinery/time";
import type { Logger } from "@keelson/controller";
import { writeFileAtomic } from "@keelson/execution/files";

/** Options of {@link openExpiries}. */
export interface ExpiriesOptions {
  /** File with the expiry times that were changed after creation. */
  readonly file: string;
  readonly clock: Clock;
  readonly log: Logger;
  /** Stops an expired sandbox. Called once per expiry. */
  readonly end: (sandboxId: string) => Promise<void>;
}

/**
 * Expiry times of an agent's sandboxes. The agent enforces them itself, so that they hold while the operator is down.
 *
 * **Guarantees**: a time is on disk when `set` resolves; one timer runs, for the nearest expiry.
 */
export interface Expiries {
  /** Milliseconds since the epoch; undefined: never. */
  of(sandboxId: string): number | undefined;
  /** Registers the expiry from a sandbox's creation; a time that was set later, even by an earlier process, takes precedence. */
  adopt(sandboxId: string, createdWithMs: number | undefined): void;
  set(sandboxId: string, atMs: number | undefined): Promise<void>;
  forget(sandboxId: string): Promise<void>;
  stop(): void;
}

/**
 * How long after its expiry an agent stops a sandbox. Leaves the orderly shutdown to the operator if it is up, and allows for clock
 * skew between machines.
 */
export const expiryGraceMs = 5_000;

/** Maximum timer delay, because the wall clock may be adjusted. */
const maxWaitMs = 3_600_000;

/** Opens the expiry times in a file. */
export function openExpiries({ file, clock, log, end }: ExpiriesOptions): Expiries {
  const changed = readTimes(file, log);
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
    timer = clock.setTimer(Math.min(Math.max(nearest - clock.now(), 0), maxWaitMs), check, { background: true });
  }

  function check(): void {
    const now = clock.now();
    for (const [sandboxId, atMs] of times) {
      if (atMs + expiryGraceMs > now) continue;
      times.delete(sandboxId);
      end(sandboxId).catch((error: unknown) => log.error({ err: error, sandboxId }, "could not stop an expired sandbox"));
    }
    arm();
  }

  const save = (): Promise<void> => {
    const attempt = writing.then(() => writeFileAtomic(file, JSON.stringify(Object.fromEntries(changed)), { durable: true }));
    writing = attempt.catch(() => {});
    return attempt;
  };

  return {
    of: (sandboxId) => (changed.has(sandboxId) ? (changed.get(sandboxId) ?? undefined) : times.get(sandboxId)),
    adopt: (sandboxId, createdWithMs) =>
      note(sandboxId, changed.has(sandboxId) ? (changed.get(sandboxId) ?? undefined) : createdWithMs),
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

/** Reads the file; a damaged or missing one counts as empty. */
function readTimes(file: string, log: Logger): Map<string, number | null> {
  if (!existsSync(file)) return new Map();
  let value: unknown;
  try {
    value = JSON.parse(readFileSync(file, "utf8"));
  } catch (error) {
    log.warn({ err: error, file }, "the record of changed expiry times is damaged; using those of the sandboxes' creation");
    return new Map();
  }
  if (!isJsonObject(value)) return new Map();
  return new Map(
    Object.entries(value).filter((entry): entry is [string, number | null] => entry[1] === null || Number.isFinite(entry[1])),
  );
}
