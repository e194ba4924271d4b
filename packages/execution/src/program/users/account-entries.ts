/** The fields of an entry of passwd(5) or group(5). */
export type AccountFields = readonly string[];

/** More fields than a passwd(5) entry has are not split off. */
const maxFields = 7;

/**
 * The lines that contain `part`, in order. A program can write these files into its own root, so each line is visited at most once, and none
 * is split before it is known to match.
 */
function* linesWith(text: string, part: string): Generator<string> {
  for (let at = text.indexOf(part); at >= 0; ) {
    const from = at === 0 ? 0 : text.lastIndexOf("\n", at - 1) + 1;
    const end = text.indexOf("\n", at);
    const to = end < 0 ? text.length : end;
    yield text.slice(from, to);
    at = to === text.length ? -1 : text.indexOf(part, to + 1);
  }
}

/** A field of a line; undefined if the line has fewer fields. */
function fieldOf(line: string, index: number): string | undefined {
  let start = 0;
  for (let field = 0; field < index; field += 1) {
    start = line.indexOf(":", start) + 1;
    if (start === 0) return undefined;
  }
  const colon = line.indexOf(":", start);
  return line.slice(start, colon < 0 ? undefined : colon);
}

function firstEntry(text: string, part: string, index: number, content: string): AccountFields | undefined {
  for (const line of linesWith(text, part)) if (fieldOf(line, index) === content) return line.split(":", maxFields);
  return undefined;
}

/** The first entry of a passwd(5) text with a login name. */
export const accountNamed = (passwd: string, name: string): AccountFields | undefined =>
  firstEntry(passwd, `${name}:`, 0, name);

/** The first entry of a passwd(5) text with a uid. */
export const accountWithId = (passwd: string, uid: number): AccountFields | undefined =>
  firstEntry(passwd, `:${uid}`, 2, String(uid));

/** The ids of the entries of a group(5) text that list a member, as they are written. */
export function* groupsWith(group: string, member: string): Generator<string> {
  for (const line of linesWith(group, member)) {
    const members = fieldOf(line, 3);
    if (members !== undefined && `,${members},`.includes(`,${member},`)) yield fieldOf(line, 2) ?? "";
  }
}
