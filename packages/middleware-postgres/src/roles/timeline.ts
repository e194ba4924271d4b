/** What a server knows about the history of its data. */
export interface History {
  readonly systemId: string;
  readonly timeline: number;
  /** End of its log in bytes. */
  readonly position: number;
  /** Where earlier timelines ended, oldest first. */
  readonly switches: readonly TimelineSwitch[];
}

/** A primary. */
export interface PrimaryHistory extends History {
  /** Position of the oldest log segment that it has kept. */
  readonly oldest: number;
}

/** The end of a timeline. */
export interface TimelineSwitch {
  readonly timeline: number;
  readonly position: number;
}

/** How a server gets the data of its primary. `rewind`: it has data that the primary does not have. */
export type CatchUp = "stream" | "rewind" | "clone";

/** Decides how a server gets the data of its primary. Pure. */
export function catchUpOf(local: History, primary: PrimaryHistory): CatchUp {
  if (local.systemId !== primary.systemId || hasCollision(local, primary)) return "clone";
  const isKept = local.position >= primary.oldest;
  if (local.timeline === primary.timeline) return local.position <= primary.position && isKept ? "stream" : "clone";
  const end = primary.switches.find(({ timeline }) => timeline === local.timeline)?.position;
  if (end === undefined || local.position > end) return "rewind";
  return isKept ? "stream" : "clone";
}

/** Whether a timeline that both know is not the same: servers that cannot see each other may choose the same number. */
function hasCollision(local: History, primary: History): boolean {
  const shared = primary.switches.findIndex(({ timeline }) => timeline === local.timeline);
  if (local.timeline === primary.timeline) return !isEqual(local.switches, primary.switches);
  if (shared >= 0) return !isEqual(local.switches, primary.switches.slice(0, shared));
  const known = local.switches.findIndex(({ timeline }) => timeline === primary.timeline);
  return known >= 0 && !isEqual(local.switches.slice(0, known), primary.switches);
}

function isEqual(a: readonly TimelineSwitch[], b: readonly TimelineSwitch[]): boolean {
  return (
    a.length === b.length &&
    a.every(({ timeline, position }, at) => timeline === b[at]?.timeline && position === b[at].position)
  );
}

/** Parses a position such as `0/3000148`. */
export function parsePosition(text: string): number {
  const [high = "0", low = "0"] = text.split("/");
  return Number.parseInt(high, 16) * 2 ** 32 + Number.parseInt(low, 16);
}

/** Parses a history file: a timeline and the position at its end per line. */
export function parseSwitches(text: string): readonly TimelineSwitch[] {
  return text.split("\n").flatMap((line) => {
    const [timeline, position] = line.trim().split(/\s+/);
    return timeline && position && /^\d+$/.test(timeline)
      ? [{ timeline: Number(timeline), position: parsePosition(position) }]
      : [];
  });
}

/** Name of the file with the history of a timeline. */
export const historyName = (timeline: number): string => `${timeline.toString(16).toUpperCase().padStart(8, "0")}.history`;

/** Position of the first byte of a log segment, from its file name. */
export function segmentPosition(name: string): number {
  return Number.parseInt(name.slice(8, 16), 16) * 2 ** 32 + Number.parseInt(name.slice(16, 24), 16) * 2 ** 24;
}
