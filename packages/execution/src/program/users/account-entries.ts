/** The fields of an entry of passwd(5) or group(5). */
export type AccountFields = readonly string[];

/** More fields than a passwd(5) entry has are not split off. */
const maxFields = 7;

/**
 * The entries whose line contains `part`, in order. A program can write these files into its own root, so each line is visited at most once
 * and only lines with `part` are split.
 */
export function* entriesWith(text: string, part: string): Generator<AccountFields> {
  for (let at = text.indexOf(part); at >= 0; ) {
    const from = at === 0 ? 0 : text.lastIndexOf("\n", at - 1) + 1;
    const end = text.indexOf("\n", at);
    const to = end < 0 ? text.length : end;
    yield text.slice(from, to).split(":", maxFields);
    at = to === text.length ? -1 : text.indexOf(part, to + 1);
  }
}

/** The first entry of a passwd(5) text with a login name. */
export function accountNamed(passwd: string, name: string): AccountFields | undefined {
  return find(entriesWith(passwd, `${name}:`), (fields) => fields[0] === name);
}

/** The first entry of a passwd(5) text with a uid. */
export function accountWithId(passwd: string, uid: number): AccountFields | undefined {
  return find(entriesWith(passwd, `:${uid}`), (fields) => fields[2] === String(uid));
}

function find(entries: Iterable<AccountFields>, matches: (fields: AccountFields) => boolean): AccountFields | undefined {
  for (const fields of entries) if (matches(fields)) return fields;
  return undefined;
}
