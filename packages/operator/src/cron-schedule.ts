import { Cron } from "croner";

/** A schedule in a time zone. Times are in milliseconds since the epoch. */
export interface CronSchedule {
  /** The first scheduled time after `time`; undefined if there is none. */
  next(time: number): number | undefined;
  /** The last scheduled time up to and including `time`; undefined if there is none. */
  last(time: number): number | undefined;
}

/** Parses a schedule of five fields, or one of `@hourly`, `@daily`, `@weekly`, `@monthly`, `@yearly`. Returns the problem if it is invalid. */
export function parseCronSchedule(text: string, timeZone: string): CronSchedule | { readonly problem: string } {
  try {
    // As in cron, either of day of month and day of week suffices if both are restricted.
    const cron = new Cron(text, { timezone: timeZone, mode: "5-part", domAndDow: false, paused: true });
    // Only a calculation finds an unknown time zone.
    cron.nextRun(new Date(0));
    return {
      next: (time) => cron.nextRun(new Date(time))?.getTime(),
      // previousRuns excludes the given second.
      last: (time) => cron.previousRuns(1, new Date(time + 1_000))[0]?.getTime(),
    };
  } catch (error) {
    return { problem: error instanceof Error ? error.message : String(error) };
  }
}
