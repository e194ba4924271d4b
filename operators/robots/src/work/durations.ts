import { isDuration, parseDuration } from "@keelson/api-machinery/time";

/** Milliseconds of a duration field. Durations are validated at admission; a malformed one counts as 0. */
export function durationMsOf(text: string): number {
  return isDuration(text) ? parseDuration(text) : 0;
}
