import { getSystemErrorMap } from "node:util";
import { codeOffset, executable, Segment } from "./executable.ts";

/*
 * A program that makes system calls one after another, and then executes its arguments with its own environment and descriptors. It prepares
 * a sandbox in place of a chain of mount(8), unshare(1), setpriv(1) and shells, each of which costs an exec and its libraries.
 */

/** Numbers of system calls on x86-64 (arch/x86/entry/syscalls/syscall_64.tbl). */
const numbers = {
  write: 1,
  close: 3,
  fork: 57,
  execve: 59,
  wait4: 61,
  mkdir: 83,
  setgroups: 116,
  setresuid: 117,
  setresgid: 119,
  capset: 126,
  mknod: 133,
  prctl: 157,
  mount: 165,
  exitGroup: 231,
  unshare: 272,
  prlimit64: 302,
  setns: 308,
} as const;

/** A number, a text, or bytes in memory, of which the call gets the address. */
export type CallArgument = number | bigint | string | Buffer;

/** One system call. */
export interface SystemCall {
  readonly name: Exclude<keyof typeof numbers, "execve" | "exitGroup" | "fork" | "wait4">;
  readonly args: readonly CallArgument[];
  /** What has failed, if it fails: `could not mount /a`. */
  readonly failure: string;
  /** Number of an error that does not count as a failure. */
  readonly accepts?: number;
}

/** Calls of a child process, which ends after them. The program waits for it. */
export interface ChildCalls {
  readonly child: readonly SystemCall[];
  /** What has failed if there can be no child. */
  readonly failure: string;
}

/** Exit code of a program whose calls fail. Its standard error has the failure and the number of the error: `could not mount /a: error 013`. */
export const callFailed = 125;

/** What a failed program has printed, with the error in words: `could not mount /a: permission denied`. */
export const describeFailure = (text: string): string =>
  text.replace(/: error (\d{3})$/, (all, number) => `: ${getSystemErrorMap().get(-Number(number))?.[1] ?? all.slice(2)}`);

/** `mov` of a register and 64 bits, for the arguments of a system call: rdi, rsi, rdx, r10, r8, r9. */
const moves = [
  [0x48, 0xbf],
  [0x48, 0xbe],
  [0x48, 0xba],
  [0x49, 0xba],
  [0x49, 0xb8],
  [0x49, 0xb9],
] as const;

const bytes = (...values: number[]): Buffer => Buffer.from(values);

/** `mov r32, imm32` of eax 0xb8, ecx 0xb9, edx 0xba, esi 0xbe, edi 0xbf. */
function move(register: 0xb8 | 0xb9 | 0xba | 0xbe | 0xbf, value: number): Buffer {
  const code = Buffer.alloc(5, register);
  code.writeUInt32LE(value, 1);
  return code;
}

function moveWide(index: number, value: bigint): Buffer {
  const code = Buffer.alloc(10);
  code.set(moves[index] ?? moves[0]);
  code.writeBigUInt64LE(BigInt.asUintN(64, value), 2);
  return code;
}

const systemCall = (name: keyof typeof numbers): Buffer => Buffer.concat([move(0xb8, numbers[name]), bytes(0x0f, 0x05)]);

/** Expects the error in rax, and the address and length of a message in rsi and rdx. Prints it with the error's number, and exits. */
const failing: Buffer = Buffer.concat([
  bytes(0x49, 0x89, 0xc4), // mov r12, rax
  ...[move(0xbf, 2), systemCall("write")],
  bytes(0x4c, 0x89, 0xe0, 0xf7, 0xd8), // mov rax, r12; neg eax
  bytes(0x48, 0x83, 0xec, 0x08), // sub rsp, 8
  move(0xb9, 10),
  // Digits from the last to the second: xor edx, edx; div ecx; add dl, '0'; mov [rsp + n], dl
  ...[2, 1].map((position) => bytes(0x31, 0xd2, 0xf7, 0xf1, 0x80, 0xc2, 0x30, 0x88, 0x54, 0x24, position)),
  bytes(0x04, 0x30, 0x88, 0x04, 0x24), // add al, '0'; mov [rsp], al
  bytes(0xc6, 0x44, 0x24, 0x03, 0x0a), // mov byte [rsp + 3], '\n'
  ...[move(0xbf, 2), bytes(0x48, 0x89, 0xe6), move(0xba, 4), systemCall("write")], // mov rsi, rsp
  ...[move(0xbf, callFailed), systemCall("exitGroup")],
]);

/** Sets the arguments of execve(2) from those on the stack: the program's own without the first, and its environment. */
const passArguments: Buffer = bytes(
  ...[0x48, 0x8b, 0x7c, 0x24, 0x10], // mov rdi, [rsp + 16]
  ...[0x48, 0x8d, 0x74, 0x24, 0x10], // lea rsi, [rsp + 16]
  ...[0x48, 0x8b, 0x0c, 0x24], // mov rcx, [rsp]
  ...[0x48, 0x8d, 0x54, 0xcc, 0x10], // lea rdx, [rsp + rcx * 8 + 16]
);

/** Waits for the child in rax, and exits with {@link callFailed} if it has failed, which it has reported. */
const awaitChild: Buffer = Buffer.concat([
  bytes(0x89, 0xc7, 0x48, 0x83, 0xec, 0x10, 0x48, 0x89, 0xe6), // mov edi, eax; sub rsp, 16; mov rsi, rsp
  bytes(0x31, 0xd2, 0x4d, 0x31, 0xd2), // xor edx, edx; xor r10, r10
  systemCall("wait4"),
  bytes(0x8b, 0x04, 0x24, 0x48, 0x83, 0xc4, 0x10), // mov eax, [rsp]; add rsp, 16
  bytes(0x85, 0xc0, 0x74, 12), // test eax, eax; jz over the exit
  ...[move(0xbf, callFailed), systemCall("exitGroup")],
]);

/** `mov` of two registers of 32 bits, and `jmp rel32`. */
const failureBytes = 3 * 5;

/** The code and data of a program. */
class CallCode {
  /** The code begins with {@link failing}. */
  readonly #parts: Buffer[] = [failing];
  readonly #segment = new Segment(codeOffset);
  readonly #messages = new Map<string, { readonly address: number; readonly length: number }>();
  #size = failing.length;

  add(...parts: readonly Buffer[]): void {
    for (const part of parts) {
      this.#parts.push(part);
      this.#size += part.length;
    }
  }

  call({ name, args, failure, accepts }: SystemCall): void {
    this.add(...args.map((argument, index) => moveWide(index, this.#addressOf(argument))), systemCall(name));
    // cmp rax, -accepts; je
    const isError = bytes(0x48, 0x85, 0xc0, 0x79, failureBytes);
    if (accepts !== undefined) this.add(bytes(0x48, 0x83, 0xf8, 256 - accepts, 0x74, isError.length + failureBytes));
    this.#failOn(isError, failure);
  }

  runChild({ child, failure }: ChildCalls): void {
    this.add(systemCall("fork"));
    this.#failOn(bytes(0x48, 0x85, 0xc0, 0x79, failureBytes), failure);
    // test eax, eax; jnz rel32, whose distance is known once the child's code is complete.
    const skip = bytes(0x85, 0xc0, 0x0f, 0x85, 0, 0, 0, 0);
    this.add(skip);
    const start = this.#size;
    for (const call of child) this.call(call);
    this.add(move(0xbf, 0), systemCall("exitGroup"));
    skip.writeInt32LE(this.#size - start, 4);
    this.add(awaitChild);
  }

  execute(): void {
    this.add(passArguments, systemCall("execve"));
    this.#failOn(Buffer.alloc(0), "could not execute the program");
  }

  executable(): Buffer {
    const data = this.#segment.bytes();
    return executable(Buffer.concat([data, ...this.#parts]), data.length + failing.length);
  }

  /** After a check that skips a failure if there is none, reports it. */
  #failOn(check: Buffer, failure: string): void {
    const { address, length } = this.#messageOf(failure);
    const arguments_ = [move(0xbe, address), move(0xba, length)];
    const jump = Buffer.alloc(5, 0xe9);
    jump.writeInt32LE(-(this.#size + check.length + failureBytes), 1);
    this.add(check, ...arguments_, jump);
  }

  #addressOf(argument: CallArgument): bigint {
    if (typeof argument === "number" || typeof argument === "bigint") return BigInt(argument);
    if (typeof argument === "string") return BigInt(this.#segment.addText(argument));
    this.#segment.align();
    return BigInt(this.#segment.add(argument));
  }

  #messageOf(failure: string): { readonly address: number; readonly length: number } {
    const text = Buffer.from(`${failure}: error `);
    const message = this.#messages.get(failure) ?? { address: this.#segment.add(text), length: text.length };
    this.#messages.set(failure, message);
    return message;
  }
}

/**
 * An executable that makes these calls, and then executes its second argument, an absolute path, with all arguments from there on. If a call
 * fails, it makes no further one and exits with {@link callFailed}. For x86-64, see `hasStub`.
 */
export function callProgram(steps: readonly (SystemCall | ChildCalls)[]): Buffer {
  const code = new CallCode();
  for (const step of steps) {
    if ("child" in step) code.runChild(step);
    else code.call(step);
  }
  code.execute();
  return code.executable();
}
