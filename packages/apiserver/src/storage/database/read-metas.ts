import { type MetaRecord, parseMeta } from "./page-format.ts";
import type { DatabaseFault } from "./scan-result.ts";

/** The page size where no meta page is readable. */
export const defaultPageSize = 4096;

/** Reads both meta pages of an LMDB file and returns the newer one, as LMDB does; undefined if neither is readable. */
export function readMetas(
  read: (offset: number, length: number) => Buffer,
  fileBytes: number,
  report: (fault: DatabaseFault) => void,
): MetaRecord | undefined {
  let pageSize = defaultPageSize;
  if (fileBytes < 2 * pageSize) {
    report({ offset: fileBytes, message: `the file is cut off after ${fileBytes} bytes` });
    return undefined;
  }
  const metas: MetaRecord[] = [];
  for (const page of [0, 1]) {
    const meta = parseMeta(read(page * pageSize, pageSize));
    if (typeof meta === "string") {
      report({ offset: page * pageSize, message: `meta page ${page} ${meta}` });
      continue;
    }
    ({ pageSize } = meta);
    metas.push(meta);
  }
  const [first, second] = metas;
  if (first === undefined || second === undefined) return first;
  if (first.pageSize !== second.pageSize) report({ offset: 0, message: "the meta pages disagree on the page size" });
  if (first.free.flags !== second.free.flags) report({ offset: 0, message: "the meta pages disagree on flags" });
  return first.txnid >= second.txnid ? first : second;
}
