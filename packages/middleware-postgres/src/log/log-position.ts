import type { TimelineSwitch } from "../roles/timeline.ts";

/** Segments of 16 MiB, as everywhere in this package. */
const segmentBytes = 2 ** 24;
const segmentsPerLog = 256;
const segmentName = /^([0-9A-F]{8})([0-9A-F]{8})([0-9A-F]{8})$/;
const historyFile = /^([0-9A-F]{8})\.history$/;

/** A segment of the log. */
export interface Segment {
  readonly timeline: number;
  /** Number of the segment from the start of the log. */
  readonly number: number;
}

/** What was archived: the last segment of each timeline, and the timelines whose history was. */
export interface Archived {
  readonly segments: Readonly<Record<string, number>>;
  readonly histories: readonly number[];
}

/** Nothing was archived yet. */
export const nothingArchived: Archived = { segments: {}, histories: [] };

/** The log of a primary. */
export interface AvailableLog {
  /** Names in `pg_wal`. */
  readonly names: ReadonlySet<string>;
  readonly timeline: number;
  /** Where the earlier timelines of its history ended, oldest first. */
  readonly switches: readonly TimelineSwitch[];
  /** The segment that is being written: all before it are complete. */
  readonly current: number;
}

/** The next file to archive. `missing`: it no longer exists; `oldest` is the first that does. */
export type NextFile =
  | { readonly kind: "file"; readonly name: string; readonly archived: Archived }
  | { readonly kind: "waiting" }
  | { readonly kind: "missing"; readonly name: string; readonly oldest: number | undefined };

/** Parses the name of a segment; undefined for other files. */
export function parseSegment(name: string): Segment | undefined {
  const match = segmentName.exec(name);
  if (match === null) return undefined;
  const [timeline = 0, log = 0, segment = 0] = match.slice(1).map((part) => Number.parseInt(part, 16));
  return { timeline, number: log * segmentsPerLog + segment };
}

/** Timeline of a history file; undefined for other files. */
export function parseHistoryName(name: string): number | undefined {
  const timeline = historyFile.exec(name)?.[1];
  return timeline === undefined ? undefined : Number.parseInt(timeline, 16);
}

/** Name of a segment. */
export function nameOf({ timeline, number }: Segment): string {
  const parts = [timeline, Math.floor(number / segmentsPerLog), number % segmentsPerLog];
  return parts.map((part) => part.toString(16).toUpperCase().padStart(8, "0")).join("");
}

/** Position of the first byte of a segment. */
export const startOf = (number: number): number => number * segmentBytes;

/** Number of the segment that contains a position in bytes. */
export const segmentAt = (position: number): number => Math.floor(position / segmentBytes);

/** Timeline whose file has a segment: after a switch within it, the later one, whose file starts with the log of the earlier one. */
function timelineOf(number: number, { timeline, switches }: Pick<AvailableLog, "timeline" | "switches">): number {
  const earlier = switches.find(({ position }) => segmentAt(position) > number);
  return earlier?.timeline ?? timeline;
}

/** Decides which file is archived next. Pure. `start`: the segment to start with where nothing was archived of this history. */
export function nextFile(archived: Archived, log: AvailableLog, start?: number): NextFile {
  const { timeline, names } = log;
  const history = `${timeline.toString(16).toUpperCase().padStart(8, "0")}.history`;
  // Before the first segment of its timeline: a recovery must find the way there.
  if (!archived.histories.includes(timeline) && names.has(history))
    return { kind: "file", name: history, archived: { ...archived, histories: [...archived.histories, timeline] } };
  const oldest = [...names]
    .flatMap((name) => parseSegment(name) ?? [])
    .filter((segment) => segment.timeline === timelineOf(segment.number, log))
    .reduce((least: number | undefined, { number }) => Math.min(number, least ?? number), undefined);
  const number = start ?? following(archived, log) ?? oldest;
  if (number === undefined || number >= log.current) return { kind: "waiting" };
  const segment = { timeline: timelineOf(number, log), number };
  const name = nameOf(segment);
  if (!names.has(name)) return { kind: "missing", name, oldest };
  const segments = { ...archived.segments, [segment.timeline]: number };
  return { kind: "file", name, archived: { ...archived, segments } };
}

/** The segment after the archived ones of this history. */
function following({ segments }: Archived, { timeline, switches }: AvailableLog): number | undefined {
  const own = segments[timeline];
  if (own !== undefined) return own + 1;
  for (const { timeline: earlier, position } of switches.toReversed()) {
    const last = segments[earlier];
    // A former primary may have archived log beyond the switch, which the new one does not have.
    if (last !== undefined) return Math.min(last + 1, segmentAt(position));
  }
  return undefined;
}

/** Whether a file of `pg_wal` need not be kept for the archive. */
export function isArchived(name: string, { segments, histories }: Archived): boolean {
  const history = parseHistoryName(name);
  if (history !== undefined) return histories.some((timeline) => timeline >= history);
  const segment = parseSegment(name);
  // Labels of backups, and partial segments, which the next timeline has too.
  if (segment === undefined) return true;
  return Object.entries(segments).some(([timeline, last]) => Number(timeline) >= segment.timeline && last >= segment.number);
}

/** Parses a cursor. Text that is none means that nothing was archived. */
export function parseCursor(text: string): Archived {
  if (text === "") return nothingArchived;
  const value = JSON.parse(text) as Partial<Archived>;
  return { segments: value.segments ?? {}, histories: value.histories ?? [] };
}

/** Why archived log ends before its last file on a timeline, after the last segment that a recovery has used; undefined if it does not. */
export function gapAfter(used: number, timeline: number, names: ReadonlySet<string>): string | undefined {
  const later = [...names]
    .flatMap((name) => parseSegment(name) ?? [])
    .filter((each) => each.timeline === timeline && each.number > used);
  return later.length === 0 ? undefined : nameOf({ timeline, number: used + 1 });
}
