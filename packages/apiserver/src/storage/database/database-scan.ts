import { closeSync, fstatSync, openSync, readSync } from "node:fs";
import {
  freePages,
  type MetaRecord,
  nodeFlags,
  noPage,
  pageFlags,
  pageHeaderBytes,
  type PageNode,
  parseNode,
  parseOverflow,
  parsePageHeader,
  parseTree,
  treeBytes,
  type TreeRecord,
} from "./page-format.ts";
import { readMetas } from "./read-metas.ts";
import type { ScanOptions, ScanSink, ScanSummary } from "./scan-result.ts";
import { decodeKey, isTableName, type KeyBounds, onlyKey, textOf } from "./scanned-key.ts";

/** Trees are at most this deep. */
const maxDepth = 32;

/**
 * Reads an LMDB file without mapping it: every page in use is checked, every entry is handed over, and damage is reported instead of
 * crashing the process. Where a page is damaged, the scan skips what is below it and continues.
 */
export function scanDatabase(path: string, sink: ScanSink, options: ScanOptions = {}): ScanSummary {
  const file = openSync(path, "r");
  try {
    return new DatabaseScan(file, sink, options).run();
  } finally {
    closeSync(file);
  }
}

/** The tree that is being walked, with what was counted so far. */
interface TreeWalk {
  readonly name: string;
  readonly isFreeList: boolean;
  branchPages: number;
  leafPages: number;
  overflowPages: number;
  entries: number;
  hasFaults: boolean;
  readonly visit: (node: PageNode, value: Buffer, offset: number) => void;
}

class DatabaseScan {
  readonly #file: number;
  readonly #sink: ScanSink;
  readonly #maxLeafPages: number;
  readonly #onOrphan: ScanOptions["onOrphan"];
  readonly #fileBytes: number;
  readonly #used = new Set<number>();
  #pageSize = 4096;
  #meta: MetaRecord | undefined;
  #leafStep = 1;
  #leafCount = 0;

  constructor(file: number, sink: ScanSink, { maxLeafPages = Number.POSITIVE_INFINITY, onOrphan }: ScanOptions) {
    this.#file = file;
    this.#sink = sink;
    this.#maxLeafPages = maxLeafPages;
    this.#onOrphan = onOrphan;
    this.#fileBytes = fstatSync(file).size;
  }

  run(): ScanSummary {
    const meta = this.#readMetas();
    this.#meta = meta;
    if (meta === undefined) {
      this.#scanOrphans(new Set());
      return { txnid: undefined, isSampled: false, usedBytes: 0 };
    }
    this.#leafStep = Math.max(1, Math.ceil(meta.lastPage / this.#maxLeafPages));
    const trees: { readonly name: string; readonly tree: TreeRecord }[] = [];
    this.#walkTree("directory", meta.main, ({ key, flags }, value, offset) => {
      const name = key.toString("latin1").replace(/\0$/, "");
      if ((flags & nodeFlags.tree) === 0 || value.length !== treeBytes || !isTableName(name)) {
        this.#sink.fault({ offset, message: `unknown entry ${JSON.stringify(name)} in the directory` });
      } else trees.push({ name, tree: parseTree(value, 0) });
    });
    for (const { name, tree } of trees)
      this.#walkTree(name, tree, (node, value, offset) => this.#entry(name, node, value, offset));
    const used = new Set(this.#used);
    const free = this.#walkFreeList(meta, used);
    this.#scanOrphans(free);
    return { txnid: meta.txnid, isSampled: this.#leafStep > 1, usedBytes: used.size * this.#pageSize };
  }

  /** Reads both meta pages and returns the newer one, as LMDB does. */
  #readMetas(): MetaRecord | undefined {
    const meta = readMetas(
      (offset, length) => this.#read(offset, length),
      this.#fileBytes,
      (fault) => this.#sink.fault(fault),
    );
    this.#pageSize = meta?.pageSize ?? this.#pageSize;
    return meta;
  }

  /** Checks the free list and returns its pages. */
  #walkFreeList(meta: MetaRecord, used: ReadonlySet<number>): ReadonlySet<number> {
    const free = new Set<number>();
    const report = (offset: number, message: string): void => this.#sink.fault({ offset, message });
    this.#walkTree("free list", meta.free, (_, value, offset) => {
      for (const page of freePages(value)) {
        if (page === undefined) return report(offset, "the free list is unreadable");
        if (page < 2 || page > meta.lastPage) return report(offset, `the free list names page ${page} of ${meta.lastPage + 1}`);
        if (used.has(page) || free.has(page)) return report(offset, `page ${page} is in use and on the free list`);
        free.add(page);
      }
    });
    for (const page of this.#used) {
      if (free.has(page) && !used.has(page)) report(page * this.#pageSize, `page ${page} is in use and on the free list`);
    }
    return free;
  }

  /** Reads leaf pages that are neither in use nor free. Without damage, there are none. */
  #scanOrphans(free: ReadonlySet<number>): void {
    if (this.#onOrphan === undefined || this.#leafStep > 1) return;
    const txnid = this.#meta?.txnid ?? Number.POSITIVE_INFINITY;
    for (let page = 2; (page + 1) * this.#pageSize <= this.#fileBytes; page++) {
      if (this.#used.has(page) || free.has(page)) continue;
      const content = this.#read(page * this.#pageSize, this.#pageSize);
      const header = parsePageHeader(content);
      if (header.page !== page || header.flags !== pageFlags.leaf || Number.isNaN(header.nodes) || header.txnid > txnid)
        continue;
      for (let index = 0; index < header.nodes; index++) {
        const node = parseNode(content, index, false);
        const key = node === undefined ? undefined : decodeKey(node.key);
        if (node === undefined || typeof key !== "string") continue;
        const value = (node.flags & nodeFlags.big) === 0 ? node.data : this.#orphanOverflow(node);
        if (value !== undefined) this.#onOrphan({ key, value });
      }
    }
  }

  #orphanOverflow({ data, size }: PageNode): Buffer | undefined {
    const start = parseOverflow(data).page * this.#pageSize + pageHeaderBytes;
    return start + size <= this.#fileBytes ? this.#read(start, size) : undefined;
  }

  #walkTree(name: string, tree: TreeRecord, visit: TreeWalk["visit"]): void {
    const walk: TreeWalk = {
      name,
      isFreeList: name === "free list",
      branchPages: 0,
      leafPages: 0,
      overflowPages: 0,
      entries: 0,
      hasFaults: false,
      visit,
    };
    if (tree.root !== noPage) this.#walkPage(walk, tree.root, 1, tree.depth, { from: undefined, to: undefined });
    if (walk.hasFaults || this.#leafStep > 1) return;
    const expectedFlags = walk.isFreeList ? tree.flags : 0;
    for (const field of ["branchPages", "leafPages", "overflowPages", "entries"] as const) {
      if (tree[field] === walk[field]) continue;
      const offset = Math.max(tree.root, 0) * this.#pageSize;
      this.#fault(walk, offset, `${name} has ${walk[field]} ${wordsOf[field]}, not ${tree[field]}`);
    }
    if (tree.flags !== expectedFlags)
      this.#fault(walk, Math.max(tree.root, 0) * this.#pageSize, `${name} has flags ${tree.flags}`);
  }

  #walkPage(walk: TreeWalk, page: number, level: number, depth: number, bounds: KeyBounds): void {
    const offset = page * this.#pageSize;
    const content = this.#claim(walk, page, bounds);
    if (content === undefined) return;
    const header = parsePageHeader(content);
    const isBranch = header.flags === pageFlags.branch;
    if (header.page !== page || (!isBranch && header.flags !== pageFlags.leaf) || Number.isNaN(header.nodes)) {
      return this.#fault(walk, offset, `page ${page} of ${walk.name} is not a valid page`, bounds);
    }
    if (header.txnid > (this.#meta?.txnid ?? 0)) {
      return this.#fault(walk, offset, `page ${page} of ${walk.name} is newer than the database`, bounds);
    }
    if (isBranch ? level >= Math.min(depth, maxDepth) : level !== depth) {
      return this.#fault(walk, offset, `page ${page} of ${walk.name} is at the wrong depth`, bounds);
    }
    const nodes = this.#nodesOf(walk, content, header.nodes, isBranch, offset, bounds);
    if (isBranch) this.#walkBranch(walk, nodes, level, depth, offset, bounds);
    else this.#walkLeaf(walk, nodes, offset);
  }

  /** The valid nodes of a page, whose keys have to ascend within `bounds`. */
  #nodesOf(
    walk: TreeWalk,
    content: Buffer,
    count: number,
    isBranch: boolean,
    offset: number,
    bounds: KeyBounds,
  ): readonly PageNode[] {
    const nodes: PageNode[] = [];
    let last: Buffer | undefined;
    for (let index = 0; index < count; index++) {
      const node = parseNode(content, index, isBranch);
      // The first key of a branch is not used.
      const isCompared = !walk.isFreeList && !(isBranch && index === 0);
      const isOrdered =
        !isCompared ||
        node === undefined ||
        ((last === undefined || Buffer.compare(last, node.key) < 0) &&
          (bounds.from === undefined || Buffer.compare(bounds.from, node.key) <= 0) &&
          (bounds.to === undefined || Buffer.compare(node.key, bounds.to) < 0));
      if (node === undefined || !isOrdered) {
        this.#fault(walk, offset, `entry ${index} of a page of ${walk.name} is damaged`, bounds);
        if (isBranch) break;
        continue;
      }
      if (isCompared) last = node.key;
      nodes.push(node);
    }
    return nodes;
  }

  #walkBranch(
    walk: TreeWalk,
    nodes: readonly PageNode[],
    level: number,
    depth: number,
    offset: number,
    bounds: KeyBounds,
  ): void {
    walk.branchPages += 1;
    if (nodes.length === 0) return this.#fault(walk, offset, `a branch of ${walk.name} is empty`, bounds);
    for (const [index, node] of nodes.entries()) {
      const isLeafLevel = level + 1 === depth;
      if (isLeafLevel && walk.isFreeList === false && this.#leafCount++ % this.#leafStep !== 0) continue;
      const from = index === 0 ? bounds.from : node.key;
      this.#walkPage(walk, node.child, level + 1, depth, { from, to: nodes[index + 1]?.key ?? bounds.to });
    }
  }

  #walkLeaf(walk: TreeWalk, nodes: readonly PageNode[], offset: number): void {
    walk.leafPages += 1;
    for (const node of nodes) {
      walk.entries += 1;
      const allowed = walk.name === "directory" ? nodeFlags.tree : nodeFlags.big;
      if ((node.flags & ~allowed) !== 0) {
        this.#fault(walk, offset, `${this.#describe(walk, node.key)} has unknown flags`, onlyKey(node.key));
        continue;
      }
      const value = (node.flags & nodeFlags.big) === 0 ? node.data : this.#readOverflow(walk, node, offset);
      if (value !== undefined) walk.visit(node, value, offset);
    }
  }

  #readOverflow(walk: TreeWalk, { key, data, size }: PageNode, offset: number): Buffer | undefined {
    const { page, pages } = parseOverflow(data);
    const needed = Math.ceil((pageHeaderBytes + size) / this.#pageSize);
    const start = page * this.#pageSize;
    const lost = onlyKey(key);
    const isWithin = pages === needed && page >= 2 && page + pages - 1 <= (this.#meta?.lastPage ?? 0);
    if (!isWithin || start + pageHeaderBytes + size > this.#fileBytes) {
      this.#fault(walk, offset, `${this.#describe(walk, key)} refers to pages outside the file`, lost);
      return undefined;
    }
    const content = this.#read(start, pageHeaderBytes + size);
    const header = parsePageHeader(content);
    for (let each = page; each < page + pages; each++) {
      if (this.#used.has(each)) {
        this.#fault(walk, start, `page ${each} is used twice`, lost);
        return undefined;
      }
      this.#used.add(each);
    }
    walk.overflowPages += pages;
    if (header.page !== page || header.flags !== pageFlags.overflow || header.overflowPages !== pages) {
      this.#fault(walk, start, `the value of ${this.#describe(walk, key)} is damaged`, lost);
      return undefined;
    }
    return content.subarray(pageHeaderBytes);
  }

  /** Reads a page that no one else uses. */
  #claim(walk: TreeWalk, page: number, bounds: KeyBounds): Buffer | undefined {
    const offset = page * this.#pageSize;
    if (page < 2 || page > (this.#meta?.lastPage ?? 0)) {
      this.#fault(walk, 0, `${walk.name} refers to page ${page}, which does not exist`, bounds);
      return undefined;
    }
    if (offset + this.#pageSize > this.#fileBytes) {
      this.#fault(walk, offset, `the file ends at ${this.#fileBytes}, before page ${page} of ${walk.name}`, bounds);
      return undefined;
    }
    if (this.#used.has(page)) {
      this.#fault(walk, offset, `page ${page} is used twice`, bounds);
      return undefined;
    }
    this.#used.add(page);
    return this.#read(offset, this.#pageSize);
  }

  #entry(table: string, { key }: PageNode, value: Buffer, offset: number): void {
    const decoded = decodeKey(key);
    if (table === "log" ? typeof decoded !== "number" : typeof decoded !== "string") {
      this.#sink.fault({ offset, message: `a key of ${table} is damaged` });
    } else if (isTableName(table) && decoded !== undefined) this.#sink.entry({ table, key: decoded, value, offset });
  }

  #describe(walk: TreeWalk, key: Buffer): string {
    return walk.isFreeList ? "an entry of the free list" : `${walk.name} ${String(decodeKey(key) ?? "with an unreadable key")}`;
  }

  #fault(walk: TreeWalk, offset: number, message: string, bounds?: KeyBounds): void {
    walk.hasFaults = true;
    const [from, to] = [textOf(bounds?.from), textOf(bounds?.to)];
    const lost = { table: walk.name, ...(from === undefined ? {} : { from }), ...(to === undefined ? {} : { to }) };
    this.#sink.fault({ offset, message, ...(bounds === undefined || walk.isFreeList ? {} : { lost }) });
  }

  #read(offset: number, length: number): Buffer {
    const buffer = Buffer.alloc(length);
    for (let done = 0; done < length; ) {
      const read = readSync(this.#file, buffer, done, length - done, offset + done);
      if (read === 0) break;
      done += read;
    }
    return buffer;
  }
}

const wordsOf = { branchPages: "branch pages", leafPages: "leaf pages", overflowPages: "overflow pages", entries: "entries" };
