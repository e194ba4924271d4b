import {
  type MetaRecord,
  nodeFlags,
  noPage,
  pageFlags,
  pageHeaderBytes,
  type PageNode,
  parseNode,
  parseOverflow,
  parsePageHeader,
  type TreeRecord,
} from "./page-format.ts";
import type { ScanFile } from "./scan-file.ts";
import type { ScanSink } from "./scan-result.ts";
import { decodeKey, type KeyBounds, onlyKey, textOf } from "./scanned-key.ts";

/** Trees are at most this deep. */
const maxDepth = 32;

/** Receives an entry of a tree; `offset` is that of its page. */
export type VisitEntry = (node: PageNode, value: Buffer, offset: number) => void;

/** The tree that is being walked, with what was counted so far. */
interface TreeWalk {
  readonly name: string;
  readonly isFreeList: boolean;
  branchPages: number;
  leafPages: number;
  overflowPages: number;
  entries: number;
  hasFaults: boolean;
  readonly visit: VisitEntry;
}

/** Walks the trees of a database. Where a page is damaged, it reports that, skips what is below it and continues. */
export class TreeWalker {
  readonly #file: ScanFile;
  readonly #meta: MetaRecord;
  readonly #sink: Pick<ScanSink, "fault">;
  readonly #leafStep: number;
  #leafCount = 0;
  /** Pages of the trees walked so far. */
  readonly used = new Set<number>();

  /** `leafStep` 1 reads every leaf page, 2 every second one, and so on. */
  constructor(file: ScanFile, meta: MetaRecord, sink: Pick<ScanSink, "fault">, leafStep: number) {
    this.#file = file;
    this.#meta = meta;
    this.#sink = sink;
    this.#leafStep = leafStep;
  }

  /** Checks every page of a tree and visits its entries. */
  walk(name: string, tree: TreeRecord, visit: VisitEntry): void {
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
      const offset = Math.max(tree.root, 0) * this.#meta.pageSize;
      this.#fault(walk, offset, `${name} has ${walk[field]} ${wordsOf[field]}, not ${tree[field]}`);
    }
    if (tree.flags !== expectedFlags)
      this.#fault(walk, Math.max(tree.root, 0) * this.#meta.pageSize, `${name} has flags ${tree.flags}`);
  }

  #walkPage(walk: TreeWalk, page: number, level: number, depth: number, bounds: KeyBounds): void {
    const offset = page * this.#meta.pageSize;
    const content = this.#claim(walk, page, bounds);
    if (content === undefined) return;
    const header = parsePageHeader(content);
    const isBranch = header.flags === pageFlags.branch;
    if (header.page !== page || (!isBranch && header.flags !== pageFlags.leaf) || Number.isNaN(header.nodes)) {
      return this.#fault(walk, offset, `page ${page} of ${walk.name} is not a valid page`, bounds);
    }
    if (header.txnid > this.#meta.txnid) {
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
      if (isLeafLevel && !walk.isFreeList && this.#leafCount++ % this.#leafStep !== 0) continue;
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
    const needed = Math.ceil((pageHeaderBytes + size) / this.#meta.pageSize);
    const start = page * this.#meta.pageSize;
    const lost = onlyKey(key);
    const isWithin = pages === needed && page >= 2 && page + pages - 1 <= this.#meta.lastPage;
    if (!isWithin || start + pageHeaderBytes + size > this.#file.bytes) {
      this.#fault(walk, offset, `${this.#describe(walk, key)} refers to pages outside the file`, lost);
      return undefined;
    }
    const content = this.#file.read(start, pageHeaderBytes + size);
    const header = parsePageHeader(content);
    for (let each = page; each < page + pages; each++) {
      if (this.used.has(each)) {
        this.#fault(walk, start, `page ${each} is used twice`, lost);
        return undefined;
      }
      this.used.add(each);
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
    const offset = page * this.#meta.pageSize;
    if (page < 2 || page > this.#meta.lastPage) {
      this.#fault(walk, 0, `${walk.name} refers to page ${page}, which does not exist`, bounds);
      return undefined;
    }
    if (offset + this.#meta.pageSize > this.#file.bytes) {
      this.#fault(walk, offset, `the file ends at ${this.#file.bytes}, before page ${page} of ${walk.name}`, bounds);
      return undefined;
    }
    if (this.used.has(page)) {
      this.#fault(walk, offset, `page ${page} is used twice`, bounds);
      return undefined;
    }
    this.used.add(page);
    return this.#file.read(offset, this.#meta.pageSize);
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
}

const wordsOf = { branchPages: "branch pages", leafPages: "leaf pages", overflowPages: "overflow pages", entries: "entries" };
