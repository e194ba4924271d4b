/** One entry of a tar archive. */
export interface TarEntry {
  readonly path: string;
  readonly kind: "file" | "folder" | "symlink" | "hardlink" | "other";
  readonly mode: number;
  /** Target of a link. */
  readonly link: string;
  readonly content: Uint8Array;
}

/** What is wrong with an archive. */
export class TarError extends Error {
  override readonly name = "TarError";
}

const blockBytes = 512;
const kinds: Readonly<Record<string, TarEntry["kind"]>> = {
  "0": "file",
  "\0": "file",
  "7": "file",
  "5": "folder",
  "2": "symlink",
  "1": "hardlink",
};

const textOf = (bytes: Uint8Array): string => {
  const end = bytes.indexOf(0);
  return Buffer.from(bytes.subarray(0, end < 0 ? bytes.length : end)).toString("utf8");
};

/** A number of a header: octal, or base 256 for what does not fit. */
function numberOf(bytes: Uint8Array): number {
  if (((bytes[0] ?? 0) & 0x80) !== 0) {
    let value = 0;
    for (const byte of bytes.subarray(bytes.length - 6)) value = value * 256 + byte;
    return value;
  }
  const text = textOf(bytes).trim();
  if (text === "") return 0;
  if (!/^[0-7]+$/.test(text)) throw new TarError(`the archive is damaged: ${JSON.stringify(text)} is no octal number`);
  return Number.parseInt(text, 8);
}

function checksumOf(header: Uint8Array): number {
  let sum = 0;
  for (let index = 0; index < blockBytes; index++) sum += index >= 148 && index < 156 ? 32 : (header[index] ?? 0);
  return sum;
}

/** Records of a pax header: `length key=value\n`, the length in bytes with itself. */
function paxRecords(content: Uint8Array): ReadonlyMap<string, string> {
  const records = new Map<string, string>();
  for (let at = 0; at < content.length; ) {
    const space = content.indexOf(0x20, at);
    const length = Number(Buffer.from(content.subarray(at, space)).toString("latin1"));
    if (space < 0 || !Number.isInteger(length) || length < 5 || at + length > content.length)
      throw new TarError("a pax header is damaged");
    const record = Buffer.from(content.subarray(space + 1, at + length - 1)).toString("utf8");
    const equals = record.indexOf("=");
    records.set(record.slice(0, equals), record.slice(equals + 1));
    at += length;
  }
  return records;
}

/** Reads the entries of a tar archive (ustar, pax, GNU long names). Throws a {@link TarError} where it is damaged or cut off. */
export function* readTar(archive: Uint8Array): Generator<TarEntry> {
  let pax: ReadonlyMap<string, string> = new Map();
  let longName: string | undefined;
  let longLink: string | undefined;
  for (let at = 0; at + blockBytes <= archive.length; ) {
    const header = archive.subarray(at, at + blockBytes);
    at += blockBytes;
    if (header.every((byte) => byte === 0)) return;
    if (numberOf(header.subarray(148, 156)) !== checksumOf(header))
      throw new TarError("the archive is damaged: a checksum is wrong");
    const size = Number(pax.get("size") ?? numberOf(header.subarray(124, 136)));
    if (!Number.isSafeInteger(size) || size < 0 || at + size > archive.length) throw new TarError("the archive is cut off");
    const content = archive.subarray(at, at + size);
    at += Math.ceil(size / blockBytes) * blockBytes;
    const type = String.fromCharCode(header[156] ?? 0);
    if (type === "x") {
      pax = paxRecords(content);
      continue;
    }
    if (type === "g") continue;
    if (type === "L") {
      longName = textOf(content);
      continue;
    }
    if (type === "K") {
      longLink = textOf(content);
      continue;
    }
    const isUstar = Buffer.from(header.subarray(257, 262)).toString("latin1") === "ustar";
    const prefix = isUstar ? textOf(header.subarray(345, 500)) : "";
    const name = textOf(header.subarray(0, 100));
    yield {
      path: pax.get("path") ?? longName ?? (prefix === "" ? name : `${prefix}/${name}`),
      kind: kinds[type] ?? "other",
      mode: numberOf(header.subarray(100, 108)) & 0o777,
      link: pax.get("linkpath") ?? longLink ?? textOf(header.subarray(157, 257)),
      content,
    };
    pax = new Map();
    longName = undefined;
    longLink = undefined;
  }
}
