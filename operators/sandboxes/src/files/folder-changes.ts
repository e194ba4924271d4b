import { StringDecoder } from "node:string_decoder";

/** A change in a watched directory. */
export interface FolderChange {
  /** `rename`: it has another name by now, which is a `create` if that is in the watched directory too. */
  readonly type: "create" | "write" | "remove" | "rename" | "chmod";
  /** Relative to the watched directory; `.` is the directory itself. */
  readonly path: string;
  readonly isDirectory: boolean;
}

/** Changes of a watched directory in their order. */
export interface FolderReport {
  readonly changes: readonly FolderChange[];
  /** Whether changes were lost before these: they were made faster than they were read, or in directories beyond the limit. */
  readonly isLossy: boolean;
}

const types: Readonly<Record<string, FolderChange["type"]>> = {
  c: "create",
  w: "write",
  r: "remove",
  n: "rename",
  a: "chmod",
};

/** Decodes the records of `watch-program.ts`, which may be cut anywhere. */
export class FolderRecords {
  readonly #decoder = new StringDecoder("utf8");
  #rest = "";

  /** The records that are complete with this part of the output. */
  read(data: Buffer): readonly string[] {
    const records = (this.#rest + this.#decoder.write(data)).split("\0");
    this.#rest = records.pop() ?? "";
    return records;
  }
}

/** The report of records. A change that repeats the previous one is left out: a program writes a file in many steps. */
export function reportOf(records: readonly string[]): FolderReport {
  const changes: FolderChange[] = [];
  let last = "";
  for (const record of records) {
    const type = types[record.charAt(0)];
    if (type === undefined || record === last) continue;
    changes.push({ type, path: record.slice(2), isDirectory: record.charAt(1) === "d" });
    last = record;
  }
  return { changes, isLossy: records.includes("o") };
}
