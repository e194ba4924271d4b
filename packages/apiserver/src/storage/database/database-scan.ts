import { closeSync, openSync } from "node:fs";
import { scanOrphans } from "./orphan-scan.ts";
import { freePages, type MetaRecord, nodeFlags, type PageNode, parseTree, treeBytes, type TreeRecord } from "./page-format.ts";
import { defaultPageSize, readMetas } from "./read-metas.ts";
import { ScanFile } from "./scan-file.ts";
import type { ScanOptions, ScanSink, ScanSummary } from "./scan-result.ts";
import { decodeKey, isTableName } from "./scanned-key.ts";
import { TreeWalker } from "./tree-walker.ts";

/**
 * Reads an LMDB file without mapping it: every page in use is checked, every entry is handed over, and damage is reported instead of
 * crashing the process. Where a page is damaged, the scan skips what is below it and continues.
 */
export function scanDatabase(path: string, sink: ScanSink, options: ScanOptions = {}): ScanSummary {
  const descriptor = openSync(path, "r");
  try {
    return scan(new ScanFile(descriptor), sink, options);
  } finally {
    closeSync(descriptor);
  }
}

function scan(file: ScanFile, sink: ScanSink, options: ScanOptions): ScanSummary {
  const { maxLeafPages = Number.POSITIVE_INFINITY, onOrphan } = options;
  const meta = readMetas(
    (offset, length) => file.read(offset, length),
    file.bytes,
    (fault) => sink.fault(fault),
  );
  if (meta === undefined) {
    const search = { file, pageSize: defaultPageSize, maxTxnid: Number.POSITIVE_INFINITY, isKnown: () => false };
    if (onOrphan !== undefined) scanOrphans(search, onOrphan);
    return { txnid: undefined, isSampled: false, usedBytes: 0 };
  }
  const { txnid, pageSize } = meta;
  const leafStep = Math.max(1, Math.ceil(meta.lastPage / maxLeafPages));
  const walker = new TreeWalker(file, meta, sink, leafStep);
  for (const { name, tree } of readDirectory(walker, meta, sink)) {
    walker.walk(name, tree, (node, value, offset) => reportEntry(sink, name, node, value, offset));
  }
  const used = new Set(walker.used);
  const free = walkFreeList(walker, meta, used, sink);
  if (onOrphan !== undefined && leafStep === 1) {
    scanOrphans({ file, pageSize, maxTxnid: txnid, isKnown: (page) => walker.used.has(page) || free.has(page) }, onOrphan);
  }
  return { txnid, isSampled: leafStep > 1, usedBytes: used.size * pageSize };
}

/** Reads the tree that names the other trees. */
function readDirectory(
  walker: TreeWalker,
  meta: MetaRecord,
  sink: ScanSink,
): readonly { readonly name: string; readonly tree: TreeRecord }[] {
  const trees: { readonly name: string; readonly tree: TreeRecord }[] = [];
  walker.walk("directory", meta.main, ({ key, flags }, value, offset) => {
    const name = key.toString("latin1").replace(/\0$/, "");
    if ((flags & nodeFlags.tree) === 0 || value.length !== treeBytes || !isTableName(name)) {
      sink.fault({ offset, message: `unknown entry ${JSON.stringify(name)} in the directory` });
    } else trees.push({ name, tree: parseTree(value, 0) });
  });
  return trees;
}

/** Checks the free list and returns its pages. `used` are the pages of the other trees. */
function walkFreeList(walker: TreeWalker, meta: MetaRecord, used: ReadonlySet<number>, sink: ScanSink): ReadonlySet<number> {
  const free = new Set<number>();
  const report = (offset: number, message: string): void => sink.fault({ offset, message });
  walker.walk("free list", meta.free, (_, value, offset) => {
    for (const page of freePages(value)) {
      if (page === undefined) return report(offset, "the free list is unreadable");
      if (page < 2 || page > meta.lastPage) return report(offset, `the free list names page ${page} of ${meta.lastPage + 1}`);
      if (used.has(page) || free.has(page)) return report(offset, `page ${page} is in use and on the free list`);
      free.add(page);
    }
  });
  for (const page of walker.used) {
    if (free.has(page) && !used.has(page)) report(page * meta.pageSize, `page ${page} is in use and on the free list`);
  }
  return free;
}

function reportEntry(sink: ScanSink, table: string, { key }: PageNode, value: Buffer, offset: number): void {
  const decoded = decodeKey(key);
  if (table === "log" ? typeof decoded !== "number" : typeof decoded !== "string") {
    sink.fault({ offset, message: `a key of ${table} is damaged` });
  } else if (isTableName(table) && decoded !== undefined) sink.entry({ table, key: decoded, value, offset });
}
