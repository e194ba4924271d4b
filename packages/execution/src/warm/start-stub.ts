/*
 * A program that changes its folder and executes another program. A prepared sandbox waits before it executes this file; the file's content
 * is written when the sandbox is claimed, so that command, environment and folder need not be known earlier. It needs nothing of the image:
 * neither a shell nor a C library.
 *
 * The file is an ELF executable of one read-only segment: headers, code, pointers, strings (System V ABI, AMD64 supplement).
 */

import { closeSync, openSync, writeSync } from "node:fs";

/** What a stub executes. Nothing is inherited and nothing is looked up. */
export interface StubTarget {
  /** Absolute path of the program. */
  readonly path: string;
  /** All arguments, the first included. */
  readonly argv: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly cwd: string;
}

/** Exit code of a stub that could not execute its program; its standard error has one of {@link stubMessages}. */
export const stubFailed = 126;

/** What a stub prints if it fails. */
export const stubMessages = {
  cwd: "keelson: could not enter the working directory",
  exec: "keelson: could not execute the program",
} as const;

/** Whether stubs exist for a processor (Node's name of it). */
export const hasStub = (processor: string = process.arch): boolean => processor === "x64";

const segmentAddress = 0x40_0000;
const elfHeaderBytes = 64;
const codeOffset = elfHeaderBytes + 56;

/** Numbers of system calls on x86-64. */
const systemCalls = { write: 1, execve: 59, chdir: 80, exitGroup: 231 } as const;

/** Code and data of a segment. */
class Segment {
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

  addText(text: string): number {
    return this.add(Buffer.from(`${text}\0`));
  }

  /** Appends a list of pointers that ends with a null pointer. Returns its address. */
  addPointers(addresses: readonly number[]): number {
    this.add(Buffer.alloc((8 - (this.#size % 8)) % 8));
    const table = Buffer.alloc((addresses.length + 1) * 8);
    for (const [index, address] of addresses.entries()) table.writeBigUInt64LE(BigInt(address), index * 8);
    return this.add(table);
  }

  bytes(): Buffer {
    return Buffer.concat(this.#parts);
  }
}

/** `mov r32, imm32` of a register: eax 0xb8, edx 0xba, esi 0xbe, edi 0xbf. */
function move(register: 0xb8 | 0xba | 0xbe | 0xbf, value: number): Buffer {
  const bytes = Buffer.alloc(5, register);
  bytes.writeUInt32LE(value, 1);
  return bytes;
}

const [eax, edx, esi, edi] = [0xb8, 0xba, 0xbe, 0xbf] as const;
const systemCall = (number: number): Buffer => Buffer.concat([move(eax, number), Buffer.from([0x0f, 0x05])]);
const exit = (code: number): Buffer => Buffer.concat([move(edi, code), systemCall(systemCalls.exitGroup)]);

/** Addresses of the code's data. */
interface CodeData {
  readonly cwd: number;
  readonly path: number;
  readonly argv: number;
  readonly env: number;
  readonly cwdMessage: number;
  readonly execMessage: number;
}

function codeOf({ cwd, path, argv, env, cwdMessage, execMessage }: CodeData): Buffer {
  const message = (address: number, text: string): Buffer => Buffer.concat([move(esi, address), move(edx, text.length + 1)]);
  const cwdFailed = message(cwdMessage, stubMessages.cwd);
  const execute = [
    ...[move(edi, path), move(esi, argv), move(edx, env), systemCall(systemCalls.execve)],
    message(execMessage, stubMessages.exec),
    // jmp over cwdFailed
    Buffer.from([0xeb, cwdFailed.length]),
  ];
  const executeBytes = Buffer.concat(execute);
  return Buffer.concat([
    ...[move(edi, cwd), systemCall(systemCalls.chdir)],
    // test eax, eax; jnz cwdFailed
    Buffer.from([0x85, 0xc0, 0x75, executeBytes.length]),
    executeBytes,
    cwdFailed,
    ...[move(edi, 2), systemCall(systemCalls.write), exit(stubFailed)],
  ]);
}

/** An executable of `content`, whose code begins after `skippedBytes`. */
function executable(content: Buffer, skippedBytes = 0): Buffer {
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

/** An executable that starts `target`. For x86-64, see {@link hasStub}. It differs from {@link unclaimedStub} in the header and after it. */
export function startStub(target: StubTarget): Buffer {
  const none = { cwd: 0, path: 0, argv: 0, env: 0, cwdMessage: 0, execMessage: 0 };
  const data = new Segment(codeOffset + unclaimed.length + codeOf(none).length);
  const argv = target.argv.map((text) => data.addText(text));
  const env = Object.entries(target.env).map(([name, value]) => data.addText(`${name}=${value}`));
  const code = codeOf({
    cwd: data.addText(target.cwd),
    path: data.addText(target.path),
    cwdMessage: data.addText(`${stubMessages.cwd}\n`),
    execMessage: data.addText(`${stubMessages.exec}\n`),
    argv: data.addPointers(argv),
    env: data.addPointers(env),
  });
  return executable(Buffer.concat([unclaimed, code, data.bytes()]), unclaimed.length);
}

/** Code of a stub that is not claimed. */
const unclaimed = exit(0);

/** An executable that exits with 0: the content of the file before the sandbox is claimed. */
export const unclaimedStub = (): Buffer => executable(unclaimed);

/** Whether the content of a file is an unclaimed stub, or one whose claim was interrupted. */
export const isUnclaimed = (content: Buffer): boolean => {
  const stub = unclaimedStub();
  return content.subarray(0, stub.length).equals(stub);
};

/**
 * Claims the stub in a file. The header is written last, in one page: a claim that is interrupted leaves a stub that exits with 0. The
 * file is changed in place, because it is already mounted in the sandbox.
 */
export function claimStub(file: string, target: StubTarget): void {
  const content = startStub(target);
  const descriptor = openSync(file, "r+");
  try {
    writeWhole(descriptor, content.subarray(codeOffset), codeOffset);
    writeWhole(descriptor, content.subarray(0, codeOffset), 0);
  } finally {
    closeSync(descriptor);
  }
}

function writeWhole(descriptor: number, bytes: Buffer, position: number): void {
  for (let written = 0; written < bytes.length; )
    written += writeSync(descriptor, bytes, written, bytes.length - written, position + written);
}
