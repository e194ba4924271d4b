import { Cron } from "croner";

/** The schedule of a CronJob. Times are in milliseconds since the epoch. */
export interface CronSchedule {
  /** The first scheduled time after `time`; undefined if there is none. */
  next(time: number): number | undefined;
  /** The last `count` scheduled times up to and including `time`, newest first. */
  previous(time: number, count: number): readonly number[];
}

/** Parses a schedule in the format of robfig/cron v3, in UTC by default. Throws an Error that says what is wrong. */
export function parseSchedule(schedule: string, timeZone = "Etc/UTC"): CronSchedule {
  const every = /^@every (.+)$/.exec(schedule);
  if (every !== null) return everySchedule(parseGoDuration(every[1] ?? ""));
  // robfig/cron uses either of day of month and day of week if both are restricted; `?` is the same as `*`.
  const cron = new Cron(schedule.replaceAll("?", "*"), { timezone: timeZone, mode: "5-part", domAndDow: false, paused: true });
  return {
    next: (time) => cron.nextRun(new Date(time))?.getTime(),
    previous: (time, count) => cron.previousRuns(count, new Date(time + 1_000)).map((date) => date.getTime()),
  };
}

/** Constant delays are counted from the epoch, so that they do not depend on when a controller started. */
function everySchedule(periodMs: number): CronSchedule {
  return {
    next: (time) => (Math.floor(time / periodMs) + 1) * periodMs,
    previous: (time, count) => Array.from({ length: count }, (_, index) => (Math.floor(time / periodMs) - index) * periodMs),
  };
}

const unitsMs: Readonly<Record<string, number>> = { s: 1_000, m: 60_000, h: 3_600_000 };

/** Parses a duration such as `1h30m` with a granularity of seconds. */
function parseGoDuration(text: string): number {
  const parts = [...text.matchAll(/(\d+(?:\.\d+)?)([smh])/g)];
  const totalMs = parts.reduce((sum, [, amount, unit = ""]) => sum + Number(amount) * (unitsMs[unit] ?? 0), 0);
  if (parts.map(([part]) => part).join("") !== text || totalMs < 1_000) {
    throw new RangeError(`@every: invalid duration ${JSON.stringify(text)}: must be at least 1s`);
  }
  return Math.floor(totalMs / 1_000) * 1_000;
}

/** A time as RFC 3339 with the offset of a time zone, as Go formats it. */
export function formatInZone(time: number, timeZone: string | undefined): string {
  const utc = new Date(time).toISOString().replace(/\.\d{3}Z$/, "Z");
  if (timeZone === undefined) return utc;
  const parts = new Intl.DateTimeFormat("en-US", { timeZone, timeZoneName: "longOffset" }).formatToParts(time);
  const offset = /GMT([+-])(\d{2}):(\d{2})/.exec(parts.find(({ type }) => type === "timeZoneName")?.value ?? "");
  if (offset === null) return utc;
  const [, sign = "+", hours = "0", minutes = "0"] = offset;
  const offsetMs = (sign === "-" ? -1 : 1) * (Number(hours) * 60 + Number(minutes)) * 60_000;
  return `${new Date(time + offsetMs).toISOString().slice(0, 19)}${sign}${hours}:${minutes}`;
}
