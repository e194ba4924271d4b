/*
 * Static executables for x86-64 of one read-only segment: headers, code and data (System V ABI, AMD64 supplement). They need nothing of a
 * root: neither a shell nor a C library, whose loading takes longer than most of what they do.
 */

/** Whether executables can be written for a processor (Node's name of it). */
export const hasStub = (processor: string = process.arch): boolean => processor === "x64";

const segmentAddress = 0x40_0000;
const elfHeaderBytes = 64;

/** Where the content of an executable begins, in the file and in the segment. */
export const codeOffset = elfHeaderBytes + 56;

/** Code and data of a segment. */
export class Segment {
  readonly #parts: Buffer[] = [];
  #size: number;

  constructor(offset: number) {
    this.#size = offset;
  }

  /** Appends data. Returns its address. */
  add(data: Buffer): number {
    const address = segmentAddress + this.#size;
    this.#parts.push(data);
    this.#size += data.length;
    return address;
  }

  /** Appends a text that ends with a null byte. Returns its address. */
  addText(text: string): number {
    return this.add(Buffer.from(`${text}\0`));
  }

  /** Appends a list of pointers that ends with a null pointer. Returns its address. */
  addPointers(addresses: readonly number[]): number {
    this.align();
    const table = Buffer.alloc((addresses.length + 1) * 8);
    for (const [index, address] of addresses.entries()) table.writeBigUInt64LE(BigInt(address), index * 8);
    return this.add(table);
  }

  /** Continues at a multiple of 8 bytes. */
  align(): void {
    this.add(Buffer.alloc((8 - (this.#size % 8)) % 8));
  }

  bytes(): Buffer {
    return Buffer.concat(this.#parts);
  }
}

/** An executable of `content`, whose code begins after `skippedBytes`. */
export function executable(content: Buffer, skippedBytes = 0): Buffer {
  const header = Buffer.alloc(codeOffset);
  header.write("\x7fELF", 0, "latin1");
  // 64 bits, little-endian, version 1.
  header.set([2, 1, 1], 4);
  header.writeUInt16LE(2, 16); // ET_EXEC
  header.writeUInt16LE(62, 18); // EM_X86_64
  header.writeUInt32LE(1, 20);
  header.writeBigUInt64LE(BigInt(segmentAddress + codeOffset + skippedBytes), 24); // entry
  header.writeBigUInt64LE(BigInt(elfHeaderBytes), 32); // program headers
  header.writeUInt16LE(elfHeaderBytes, 52);
  header.writeUInt16LE(56, 54);
  header.writeUInt16LE(1, 56);
  const size = BigInt(codeOffset + content.length);
  header.writeUInt32LE(1, elfHeaderBytes); // PT_LOAD
  header.writeUInt32LE(5, elfHeaderBytes + 4); // readable, executable
  header.writeBigUInt64LE(BigInt(segmentAddress), elfHeaderBytes + 16);
  header.writeBigUInt64LE(BigInt(segmentAddress), elfHeaderBytes + 24);
  header.writeBigUInt64LE(size, elfHeaderBytes + 32);
  header.writeBigUInt64LE(size, elfHeaderBytes + 40);
  header.writeBigUInt64LE(4096n, elfHeaderBytes + 48);
  return Buffer.concat([header, content]);
}
