import { crc32, deflateRawSync } from "node:zlib";

/** An entry of a zip archive. A name that ends with `/` is a directory. */
export interface ZipEntry {
  readonly name: string;
  /** Default: empty. */
  readonly content?: string;
  /** Unix mode with its type bits. Default: none. */
  readonly mode?: number;
  /** Size that the headers state. Default: that of the content. */
  readonly claimedSize?: number;
}

/** A zip archive of these entries as they are (APPNOTE.TXT 6.3), also such as no tool would write. */
export function zipArchive(...entries: readonly ZipEntry[]): Buffer {
  const files: Buffer[] = [];
  const directory: Buffer[] = [];
  let offset = 0;
  for (const { name, content = "", mode = 0, claimedSize } of entries) {
    const data = Buffer.from(content);
    const packed = deflateRawSync(data);
    const path = Buffer.from(name);
    const shared = Buffer.alloc(26);
    shared.writeUInt16LE(20, 0);
    shared.writeUInt16LE(8, 4);
    shared.writeUInt32LE(crc32(data), 10);
    shared.writeUInt32LE(packed.length, 14);
    shared.writeUInt32LE(claimedSize ?? data.length, 18);
    shared.writeUInt16LE(path.length, 22);
    const local = Buffer.concat([Buffer.from("PK\u0003\u0004", "latin1"), shared, path, packed]);
    const rest = Buffer.alloc(14);
    rest.writeUInt32LE(mode * 0x1_0000, 6);
    rest.writeUInt32LE(offset, 10);
    // Made by Unix, so that the mode counts.
    directory.push(Buffer.concat([Buffer.from("PK\u0001\u0002\u0014\u0003", "latin1"), shared, rest, path]));
    files.push(local);
    offset += local.length;
  }
  const central = Buffer.concat(directory);
  const end = Buffer.alloc(22);
  end.write("PK\u0005\u0006", "latin1");
  end.writeUInt16LE(entries.length, 8);
  end.writeUInt16LE(entries.length, 10);
  end.writeUInt32LE(central.length, 12);
  end.writeUInt32LE(offset, 16);
  return Buffer.concat([...files, central, end]);
}
