import { Header } from "tar";

/** An entry of a tar archive. */
export interface TarEntry {
  readonly path: string;
  /** Default: empty. */
  readonly content?: string | Uint8Array;
  /** Default: `File`. */
  readonly type?: "File" | "SymbolicLink" | "Link" | "Directory" | "CharacterDevice";
  readonly linkpath?: string;
  /** Default: 0644. */
  readonly mode?: number;
}

/** An archive of these entries as they are, also such as no tool would write. */
export function tarArchive(...entries: readonly TarEntry[]): Buffer {
  const blocks = entries.flatMap(({ path, content = "", type = "File", linkpath = "", mode = 0o644 }) => {
    const bytes = Buffer.from(content);
    const header = new Header({ path, type, linkpath, size: bytes.length, mode });
    const block = Buffer.alloc(512);
    header.encode(block, 0);
    return [block, bytes, Buffer.alloc((512 - (bytes.length % 512)) % 512)];
  });
  return Buffer.concat([...blocks, Buffer.alloc(1024)]);
}
