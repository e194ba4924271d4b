const second = 1000;
const minute = 60 * second;
const hour = 60 * minute;
const day = 24 * hour;
const year = 365 * day;

/**
 * Formats a duration with at most two units (`5s`, `3m12s`, `4h7m`, `2d5h`, `3y40d`), like kubectl's ages. Slightly negative durations,
 * caused by clock skew, are `0s`; others are `<invalid>`.
 */
export function humanDuration(durationMs: number): string {
  const seconds = Math.trunc(durationMs / second);
  if (seconds < -1) return "<invalid>";
  if (seconds < 0) return "0s";
  if (seconds < 120) return `${seconds}s`;
  if (durationMs < 10 * minute) return twoUnits(durationMs, minute, "m", second, "s");
  if (durationMs < 3 * hour) return `${Math.floor(durationMs / minute)}m`;
  if (durationMs < 8 * hour) return twoUnits(durationMs, hour, "h", minute, "m");
  if (durationMs < 2 * day) return `${Math.floor(durationMs / hour)}h`;
  if (durationMs < 8 * day) return twoUnits(durationMs, day, "d", hour, "h");
  if (durationMs < 2 * year) return `${Math.floor(durationMs / day)}d`;
  if (durationMs < 8 * year) return twoUnits(durationMs, year, "y", day, "d");
  return `${Math.floor(durationMs / year)}y`;
}

function twoUnits(durationMs: number, large: number, largeName: string, small: number, smallName: string): string {
  const rest = Math.floor((durationMs % large) / small);
  return `${Math.floor(durationMs / large)}${largeName}${rest === 0 ? "" : `${rest}${smallName}`}`;
}

/** Formats the time since an RFC 3339 timestamp; `<unknown>` if absent, `<invalid>` if malformed. */
export function age(timestamp: unknown, now: number): string {
  if (timestamp === undefined || timestamp === null || timestamp === "") return "<unknown>";
  const time = typeof timestamp === "string" ? Date.parse(timestamp) : Number.NaN;
  return Number.isNaN(time) ? "<invalid>" : humanDuration(now - time);
}
