const [segmentBytes, pageBytes] = [2 ** 24, 8_192];
/** Sizes of the headers of the first page of a segment and of the other pages. */
const [segmentHeaderBytes, pageHeaderBytes] = [0x28, 0x18];

/**
 * Position at which all log but the shutdown's own checkpoint ends, by the output of `pg_controldata`. Undefined unless a
 * primary was shut down cleanly.
 *
 * With an archive, a server begins a new segment when it shuts down, and may close the connections of its replicas before it has sent
 * them the checkpoint in it. That record has no data, so a replica that has all log before it lacks nothing.
 */
export function dataEndOf(control: string): string | undefined {
  if (!/^Database cluster state:\s+shut down$/m.test(control)) return undefined;
  const [, high, low] = /^Latest checkpoint location:\s+([0-9A-F]+)\/([0-9A-F]+)$/m.exec(control) ?? [];
  if (high === undefined || low === undefined) return undefined;
  const offset = Number.parseInt(low, 16);
  // The headers of a page are sent with its first record.
  const header =
    offset % segmentBytes === segmentHeaderBytes
      ? segmentHeaderBytes
      : offset % pageBytes === pageHeaderBytes
        ? pageHeaderBytes
        : 0;
  return `${high}/${(offset - header).toString(16).toUpperCase()}`;
}
