import { type ChildProcess, spawn } from "node:child_process";
import { closeSync } from "node:fs";
import { fileURLToPath } from "node:url";
import type { Clock, Timer } from "@keelson/api-machinery/time";
import type { Program, ProgramRoot } from "@keelson/execution";
import { FileError, fileErrorCodes, type FileOperation, type FileResult } from "./file-operations.ts";
import { openSandboxRoot } from "./open-sandbox-root.ts";

/*
 * The agent, which is root, never touches the files of a sandbox. For each sandbox whose files are used it starts a helper with a
 * descriptor of the sandbox's root and the sandbox's user, see `files-program.ts`.
 */

/** The built helper, even if this module runs from its source. */
const helperProgram = fileURLToPath(
  new URL(import.meta.url.endsWith(".ts") ? "../../dist/files/files-program.js" : "./files-program.js", import.meta.url),
);

/** A helper that is not used for this long is stopped. */
const idleMs = 30_000;

/** Maximum number of operations in flight per sandbox. */
const maxOperations = 64;

/** What starts the helper: nothing that it executes could gain privileges. */
const withoutPrivileges = (command: readonly [string, ...string[]]): readonly [string, ...string[]] =>
  process.getuid?.() === 0 ? ["setpriv", "--no-new-privs", "--", ...command] : command;

interface Waiting {
  readonly resolve: (result: FileResult) => void;
  readonly reject: (error: FileError) => void;
}

/** The helpers of an agent's sandboxes. */
export class FileHelpers {
  readonly #clock: Clock;
  readonly #helpers = new Map<string, Promise<FileHelper>>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Runs an operation on the files of a program. Rejects with a {@link FileError}, or an `ExecutionError` if it has no files. */
  async run(program: Program, operation: FileOperation): Promise<FileResult> {
    let helper = this.#helpers.get(program.id);
    if (helper === undefined) {
      helper = this.#start(program);
      this.#helpers.set(program.id, helper);
      helper.catch(() => this.#forget(program.id, helper));
    }
    return (await helper).run(operation);
  }

  close(): void {
    for (const helper of this.#helpers.values()) helper.then((each) => each.stop()).catch(() => {});
    this.#helpers.clear();
  }

  async #start(program: Program): Promise<FileHelper> {
    const root = await openSandboxRoot(program, this.#clock);
    try {
      const helper: FileHelper = new FileHelper(root, this.#clock, () => {
        forget();
        this.#helpers.delete(program.id);
      });
      // The descriptor would keep the sandbox's file systems.
      const forget = program.onExit(() => helper.stop());
      return helper;
    } finally {
      closeSync(root.fd);
    }
  }

  #forget(id: string, helper: Promise<FileHelper> | undefined): void {
    if (this.#helpers.get(id) === helper) this.#helpers.delete(id);
  }
}

/** The helper process of one sandbox. */
class FileHelper {
  readonly #process: ChildProcess;
  readonly #clock: Clock;
  readonly #waiting = new Map<number, Waiting>();
  #nextId = 0;
  #idle: Timer | undefined;

  /** `onEnd` is called once, when it accepts no more operations. */
  constructor({ fd, user }: ProgramRoot, clock: Clock, onEnd: () => void) {
    this.#clock = clock;
    const [program, ...args] = withoutPrivileges([process.execPath, helperProgram]);
    this.#process = spawn(program, [...args, String(user.uid), String(user.gid)], {
      stdio: ["ignore", "ignore", "ignore", fd, "ipc"],
      serialization: "advanced",
      // A thread pool of the kernel would keep root's permissions.
      env: { PATH: process.env.PATH, UV_USE_IO_URING: "0" },
      cwd: "/",
    });
    this.#process.on("message", (message) => this.#settle(message));
    const end = (): void => {
      onEnd();
      this.#idle?.cancel();
      for (const { reject } of this.#waiting.values())
        reject(new FileError("Failed", "the sandbox has ended, or its helper was stopped"));
      this.#waiting.clear();
    };
    this.#process.once("error", end).once("exit", end).once("disconnect", end);
    this.#rest();
  }

  run(operation: FileOperation): Promise<FileResult> {
    if (this.#waiting.size >= maxOperations)
      return Promise.reject(new FileError("TooLarge", `more than ${maxOperations} file operations at the same time; retry`));
    this.#idle?.cancel();
    const id = this.#nextId++;
    return new Promise((resolve, reject) => {
      this.#waiting.set(id, { resolve, reject });
      if (!this.#process.connected) return this.#fail(id);
      this.#process.send({ id, operation }, (error) => {
        if (error !== null) this.#fail(id);
      });
    });
  }

  stop(): void {
    if (this.#process.connected) this.#process.disconnect();
  }

  #settle(message: unknown): void {
    const { id, result, code, message: text } = message as { id: number; result?: FileResult; code?: string; message?: string };
    const waiting = this.#waiting.get(id);
    this.#waiting.delete(id);
    if (this.#waiting.size === 0) this.#rest();
    if (result !== undefined) waiting?.resolve(result);
    else waiting?.reject(new FileError(fileErrorCodes.find((each) => each === code) ?? "Failed", text ?? "failed"));
  }

  #fail(id: number): void {
    this.#waiting.get(id)?.reject(new FileError("Failed", "the sandbox has ended, or its helper was stopped"));
    this.#waiting.delete(id);
  }

  #rest(): void {
    this.#idle = this.#clock.setTimer(idleMs, () => this.stop(), { background: true });
  }
}
