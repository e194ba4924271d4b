/**
 * A time as objects carry it (meta/v1 Time): RFC 3339 in whole seconds, `2026-01-02T03:04:05Z`. `timeMs` counts from the
 * epoch; fractions of a second are cut off.
 *
 * **Errors**: throws a `RangeError` where the year is not from 0 to 9999.
 */
export function formatTime(timeMs: number): string {
  return `${isoTime(timeMs).slice(0, 19)}Z`;
}

/** As {@link formatTime}, in microseconds (meta/v1 MicroTime): `2026-01-02T03:04:05.678000Z`. */
export function formatMicroTime(timeMs: number): string {
  const micros = Math.floor((timeMs - Math.floor(timeMs)) * 1_000);
  return `${isoTime(timeMs).slice(0, 23)}${String(micros).padStart(3, "0")}Z`;
}

/**
 * Milliseconds from the epoch of a time in RFC 3339, to the microsecond; `undefined` where it is none.
 */
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
    throw new RangeError(`time ${timeMs} is outside of the years 0 to 9999`);
  }
  return date.toISOString();
}
