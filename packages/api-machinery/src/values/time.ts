/**
 * Formats a time as in objects (meta/v1 Time): RFC 3339 in whole seconds, `2026-01-02T03:04:05Z`. `timeMs` counts from the
 * epoch; fractions of a second are truncated.
 *
 * **Errors**: a `RangeError` if the year is not between 0 and 9999.
 */
export function formatTime(timeMs: number): string {
  return `${isoTime(timeMs).slice(0, 19)}Z`;
}

/** Formats a time in microseconds (meta/v1 MicroTime): `2026-01-02T03:04:05.678000Z`. Otherwise like {@link formatTime}. */
export function formatMicroTime(timeMs: number): string {
  const micros = Math.floor((timeMs - Math.floor(timeMs)) * 1_000);
  return `${isoTime(timeMs).slice(0, 23)}${String(micros).padStart(3, "0")}Z`;
}

/** Parses an RFC 3339 time to milliseconds since the epoch, exact to the microsecond; `undefined` if it is malformed. */
export function parseTime(text: string): number | undefined {
  const match = /^(\d{4}-\d\d-\d\d)[Tt](\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?([Zz]|[+-]\d\d:\d\d)$/.exec(text);
  if (!match) return undefined;
  const [, date, clock, fraction = "", zone = "Z"] = match;
  const whole = Date.parse(`${date}T${clock}${zone.toUpperCase()}`);
  if (Number.isNaN(whole)) return undefined;
  return whole + Math.floor(Number(fraction.padEnd(9, "0")) / 1_000) / 1_000;
}

function isoTime(timeMs: number): string {
  const date = new Date(Math.floor(timeMs));
  if (Number.isNaN(date.getTime()) || date.getUTCFullYear() < 0 || date.getUTCFullYear() > 9999) {
    throw new RangeError(`time ${timeMs} is not between the years 0 and 9999`);
  }
  return date.toISOString();
}
