/**
 * The page format of LMDB as lmdb-js writes it on 64-bit little-endian machines (mdb.c, data version 2). Reading it without mapping the
 * file allows a damaged database to be inspected and salvaged; LMDB itself crashes on many kinds of damage.
 *
 *     page:  | pgno 8 | txnid 8 | pad 2 | flags 2 | lower 2, upper 2 or overflow pages 4 | pointers 2 each ... | nodes ... |
 *     node:  | data size or page number 6 (low 2, middle 2, high 2 or flags) | key size 2 | key | data |
 *     tree:  | pad 4 | flags 2 | depth 2 | branch, leaf, overflow pages 8 each | entries 8 | root 8 |
 */

/** Bytes of a page header. */
export const pageHeaderBytes = 24;
/** Bytes of a tree record. */
export const treeBytes = 48;
/** The root of an empty tree. */
export const noPage: number = -1;

/** Page flags. */
export const pageFlags = { branch: 1, leaf: 2, overflow: 4, meta: 8 } as const;
/** Node flags of leaf pages. */
export const nodeFlags = { big: 1, tree: 2 } as const;

const nodeHeaderBytes = 8;
const metaMagic = 0xbeefc0de;
const dataVersion = 2;
/** The largest page number that is plausible: 2^48 pages. */
const maxPage = 2 ** 48;

/** A B-tree: one named database, the free list, or the directory of named databases. */
export interface TreeRecord {
  readonly pad: number;
  readonly flags: number;
  readonly depth: number;
  readonly branchPages: number;
  readonly leafPages: number;
  readonly overflowPages: number;
  readonly entries: number;
  /** {@link noPage} if the tree is empty. */
  readonly root: number;
}

/** A meta page: one snapshot of the database. */
export interface MetaRecord {
  readonly pageSize: number;
  readonly mapSize: number;
  readonly free: TreeRecord;
  readonly main: TreeRecord;
  readonly lastPage: number;
  readonly txnid: number;
}

/** A node of a leaf or branch page. */
export interface PageNode {
  readonly key: Buffer;
  /** Of a branch node: the child page. */
  readonly child: number;
  /** Of a leaf node. */
  readonly flags: number;
  /** Of a leaf node: its data, or the reference to overflow pages. */
  readonly data: Buffer;
  /** Of a leaf node: bytes of the value. */
  readonly size: number;
}

/** Reads an unsigned 64-bit number; infinity if it is too large to be a plausible page number or count. */
function readNumber(buffer: Buffer, offset: number): number {
  const value = buffer.readBigUInt64LE(offset);
  return value > BigInt(maxPage) ? Number.POSITIVE_INFINITY : Number(value);
}

/** Parses a tree record. */
export function parseTree(buffer: Buffer, offset: number): TreeRecord {
  const root = buffer.readBigUInt64LE(offset + 40);
  return {
    pad: buffer.readUInt32LE(offset),
    flags: buffer.readUInt16LE(offset + 4),
    depth: buffer.readUInt16LE(offset + 6),
    branchPages: readNumber(buffer, offset + 8),
    leafPages: readNumber(buffer, offset + 16),
    overflowPages: readNumber(buffer, offset + 24),
    entries: readNumber(buffer, offset + 32),
    root: root === 0xffff_ffff_ffff_ffffn ? noPage : readNumber(buffer, offset + 40),
  };
}

/** Parses a meta page, or says what is wrong with it. */
export function parseMeta(page: Buffer): MetaRecord | string {
  if (page.length < 168) return "is cut off";
  if (page.readUInt16LE(18) !== pageFlags.meta) return "is not a meta page";
  if (page.readUInt32LE(24) !== metaMagic) return "has a wrong magic number";
  if ((page.readUInt32LE(28) & 0xffff) !== dataVersion) return `has data version ${page.readUInt32LE(28)}, not ${dataVersion}`;
  if (page.readBigUInt64LE(32) !== 0n) return "has a map address";
  const free = parseTree(page, 48);
  const meta: MetaRecord = {
    pageSize: free.pad,
    mapSize: readNumber(page, 40),
    free,
    main: parseTree(page, 96),
    lastPage: readNumber(page, 144),
    txnid: readNumber(page, 152),
  };
  const { pageSize, mapSize, lastPage } = meta;
  if (pageSize < 512 || pageSize > 65_536 || (pageSize & (pageSize - 1)) !== 0) return `has page size ${pageSize}`;
  if (!Number.isFinite(lastPage) || lastPage < 1) return "has an impossible last page";
  if (!Number.isFinite(meta.txnid)) return "has an impossible transaction number";
  if (!Number.isFinite(mapSize) || mapSize > 2 ** 46) return `has map size ${mapSize}`;
  return meta;
}

/** The header of a page. */
export interface PageHeader {
  readonly page: number;
  readonly txnid: number;
  readonly flags: number;
  /** Of branch and leaf pages: the number of nodes; NaN if the header is impossible. */
  readonly nodes: number;
  /** Of overflow pages. */
  readonly overflowPages: number;
}

/** Parses the header of a page. */
export function parsePageHeader(page: Buffer): PageHeader {
  const lower = page.readUInt16LE(20);
  const upper = page.readUInt16LE(22);
  const space = page.length - pageHeaderBytes;
  const isPossible = lower % 2 === 0 && lower <= upper && upper <= space;
  return {
    page: readNumber(page, 0),
    txnid: readNumber(page, 8),
    flags: page.readUInt16LE(18),
    nodes: isPossible ? lower >> 1 : Number.NaN,
    overflowPages: page.readUInt32LE(20),
  };
}

/** Parses node `index` of a page; undefined if it does not lie within the page. */
export function parseNode(page: Buffer, index: number, isBranch: boolean): PageNode | undefined {
  const upper = page.readUInt16LE(22) + pageHeaderBytes;
  const start = page.readUInt16LE(pageHeaderBytes + 2 * index) + pageHeaderBytes;
  if (start < upper || start + nodeHeaderBytes > page.length) return undefined;
  const low = page.readUInt16LE(start) | (page.readUInt16LE(start + 2) << 16);
  const flags = page.readUInt16LE(start + 4);
  const dataStart = start + nodeHeaderBytes + page.readUInt16LE(start + 6);
  if (dataStart > page.length) return undefined;
  const key = page.subarray(start + nodeHeaderBytes, dataStart);
  const size = low >>> 0;
  if (isBranch) return { key, child: size + flags * 2 ** 32, flags: 0, data: page.subarray(0, 0), size: 0 };
  const length = (flags & nodeFlags.big) === 0 ? size : pageHeaderBytes;
  if (dataStart + length > page.length) return undefined;
  return { key, child: 0, flags, data: page.subarray(dataStart, dataStart + length), size };
}

/** Parses a reference to overflow pages. */
export function parseOverflow(data: Buffer): { readonly page: number; readonly txnid: number; readonly pages: number } {
  return { page: readNumber(data, 0), txnid: readNumber(data, 8), pages: readNumber(data, 16) };
}

/** The pages in an entry of the free list: single pages, and blocks as a negative length followed by the first page. */
export function* freePages(data: Buffer): Generator<number | undefined> {
  const words = Math.floor(data.length / 8);
  const count = words === 0 ? 0 : Number(data.readBigInt64LE(0));
  if (count < 0 || count >= words + 1) {
    yield undefined;
    return;
  }
  for (let index = 1; index <= count && index < words; index++) {
    const word = Number(data.readBigInt64LE(8 * index));
    if (word > 0) yield word;
    if (word >= 0) continue;
    index += 1;
    const first = index < words ? Number(data.readBigInt64LE(8 * index)) : 0;
    if (first <= 0 || -word > maxPage) yield undefined;
    else for (let page = first; page < first - word; page++) yield page;
  }
}
