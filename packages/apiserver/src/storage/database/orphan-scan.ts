import {
  nodeFlags,
  pageFlags,
  pageHeaderBytes,
  type PageNode,
  parseNode,
  parseOverflow,
  parsePageHeader,
} from "./page-format.ts";
import type { ScanFile } from "./scan-file.ts";
import type { ScanOptions } from "./scan-result.ts";
import { decodeKey } from "./scanned-key.ts";

/** Where to look for orphans. */
export interface OrphanSearch {
  readonly file: ScanFile;
  readonly pageSize: number;
  /** Pages newer than this are left over from a transaction that was never committed. */
  readonly maxTxnid: number;
  /** Whether a page is in use or free. */
  readonly isKnown: (page: number) => boolean;
}

/** Reads leaf pages that are neither in use nor free. Without damage, there are none. */
export function scanOrphans(search: OrphanSearch, onOrphan: NonNullable<ScanOptions["onOrphan"]>): void {
  const { file, pageSize, maxTxnid, isKnown } = search;
  for (let page = 2; (page + 1) * pageSize <= file.bytes; page++) {
    if (isKnown(page)) continue;
    const content = file.read(page * pageSize, pageSize);
    const header = parsePageHeader(content);
    if (header.page !== page || header.flags !== pageFlags.leaf || Number.isNaN(header.nodes) || header.txnid > maxTxnid)
      continue;
    for (let index = 0; index < header.nodes; index++) {
      const node = parseNode(content, index, false);
      const key = node === undefined ? undefined : decodeKey(node.key);
      if (node === undefined || typeof key !== "string") continue;
      const value = (node.flags & nodeFlags.big) === 0 ? node.data : overflowOf(search, node);
      if (value !== undefined) onOrphan({ key, value });
    }
  }
}

function overflowOf({ file, pageSize }: OrphanSearch, { data, size }: PageNode): Buffer | undefined {
  const start = parseOverflow(data).page * pageSize + pageHeaderBytes;
  return start + size <= file.bytes ? file.read(start, size) : undefined;
}
