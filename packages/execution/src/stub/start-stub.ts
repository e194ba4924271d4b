/*
 * A program that changes its directory and executes another program. A prepared sandbox waits before it executes this file; the file's content
 * is written when the sandbox is claimed, so that command, environment and directory need not be known earlier.
 */

import { closeSync, openSync, writeSync } from "node:fs";
import { codeOffset, executable, Segment } from "./executable.ts";

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

/** Numbers of system calls on x86-64. */
const systemCalls = { write: 1, execve: 59, chdir: 80, exitGroup: 231 } as const;

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
