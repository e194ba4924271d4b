/*
 * Why Go's decoders reject a text, in their words: `time.Parse` and `base64.StdEncoding`.
 */

/** The layouts of meta/v1 Time and MicroTime. */
export const timeLayouts = {
  time: "2006-01-02T15:04:05Z07:00",
  microTime: "2006-01-02T15:04:05.000000Z07:00",
} as const;

/** An element of a layout: its text, what matches it, and the name and bounds of a number. */
interface LayoutElement {
  readonly text: string;
  readonly pattern: RegExp;
  readonly range?: readonly [name: string, min: number, max: number];
}

const literal = (text: string): LayoutElement => ({ text, pattern: new RegExp(`^${text}`) });
const twoDigits = (text: string, ...range: readonly [string, number, number]): LayoutElement => ({
  text,
  pattern: /^\d\d/,
  range,
});

const dateAndTime: readonly LayoutElement[] = [
  { text: "2006", pattern: /^\d{4}/ },
  literal("-"),
  twoDigits("01", "month", 1, 12),
  literal("-"),
  twoDigits("02", "day", 1, 31),
  literal("T"),
  twoDigits("15", "hour", 0, 23),
  literal(":"),
  twoDigits("04", "minute", 0, 59),
  literal(":"),
  twoDigits("05", "second", 0, 59),
];
const zone: LayoutElement = { text: "Z07:00", pattern: /^(?:Z|[+-]\d\d:\d\d)/ };
const elements: Readonly<Record<keyof typeof timeLayouts, readonly LayoutElement[]>> = {
  time: [...dateAndTime, { text: ".", pattern: /^(?:\.\d+)?/ }, zone],
  microTime: [...dateAndTime, { text: ".000000", pattern: /^\.\d{6}/ }, zone],
};

/** The error of a time that cannot be parsed: `parsing time "x" as "2006-01-02T15:04:05Z07:00": cannot parse "x" as "2006"`. */
export function timeFault(text: string, layout: keyof typeof timeLayouts): string {
  const quoted = JSON.stringify(text);
  let rest = text;
  for (const { text: expected, pattern, range } of elements[layout]) {
    const found = pattern.exec(rest)?.[0];
    if (found === undefined) {
      return `parsing time ${quoted} as "${timeLayouts[layout]}": cannot parse ${JSON.stringify(rest)} as "${expected}"`;
    }
    if (range !== undefined && (Number(found) < range[1] || Number(found) > range[2])) {
      return `parsing time ${quoted}: ${range[0]} out of range`;
    }
    rest = rest.slice(found.length);
  }
  return rest === ""
    ? `parsing time ${quoted}: day out of range`
    : `parsing time ${quoted}: extra text: ${JSON.stringify(rest)}`;
}

/** The error of a text that is not padded base64: `illegal base64 data at input byte 3`. */
export function base64Fault(text: string): string {
  return `illegal base64 data at input byte ${base64FaultAt(text)}`;
}

/** Go reads groups of four characters and skips line breaks. An incomplete group is reported at its start. */
function base64FaultAt(text: string): number {
  let group = 0;
  let at = 0;
  for (; at < text.length; at++) {
    const character = text.charAt(at);
    if (character === "\n" || character === "\r") continue;
    if (character === "=") return paddingFaultAt(text, at, group);
    if (!/[A-Za-z0-9+/]/.test(character)) return at;
    group = (group + 1) % 4;
  }
  return at - group;
}

function paddingFaultAt(text: string, at: number, group: number): number {
  if (group < 2) return at;
  let next = skipLineBreaks(text, at + 1);
  if (group === 2) {
    if (next === text.length) return next;
    if (text.charAt(next) !== "=") return next - 1;
    next = skipLineBreaks(text, next + 1);
  }
  return next;
}

function skipLineBreaks(text: string, from: number): number {
  let at = from;
  while (text.charAt(at) === "\n" || text.charAt(at) === "\r") at++;
  return at;
}
