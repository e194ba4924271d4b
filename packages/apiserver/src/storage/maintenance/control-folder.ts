import { randomUUID } from "node:crypto";
import {
  existsSync,
  type FSWatcher,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  watch,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { livingOwner } from "../folder-lock.ts";
import { StorageError, type StorageErrorCode } from "../storage-error.ts";

/** What the owner of a data directory does for other processes. The results are JSON. */
export interface ControlHandlers {
  /** Writes a backup to an absolute path. */
  backup(path: string): Promise<unknown>;
  verify(): Promise<unknown>;
}

/** A request to the owner of a data directory. */
export type ControlRequest = { readonly kind: "backup"; readonly path: string } | { readonly kind: "verify" };

type Answer = { readonly result: unknown } | { readonly error: { readonly message: string; readonly code?: StorageErrorCode } };

const folderName = "control";
const requestPrefix = "request-";
const answerPrefix = "answer-";
/** How long the owner may take to accept a request. */
const acceptTimeoutMs = 10_000;
/** How often the requester checks that the owner is alive. */
const checkIntervalMs = 200;

/**
 * Requests of other processes to the owner of a data directory, as files in a subfolder: `request-ID` is removed when it is accepted, then
 * `answer-ID` is written. Backups of a running server go through it, because only the process that writes can hold a state without
 * disturbing the database. Files need no listener, and every user who can write them can read all data anyway.
 */
export class ControlFolder {
  readonly #path: string;
  readonly #handlers: ControlHandlers;
  readonly #watcher: FSWatcher;
  readonly #running = new Set<Promise<void>>();

  private constructor(path: string, handlers: ControlHandlers, watcher: FSWatcher) {
    this.#path = path;
    this.#handlers = handlers;
    this.#watcher = watcher;
    watcher.on("change", () => this.#accept());
    watcher.on("error", () => undefined);
    watcher.unref();
  }

  /** Starts serving requests; undefined if the directory cannot be created or watched, which costs only online backups. */
  static open(dir: string, handlers: ControlHandlers): ControlFolder | undefined {
    const path = join(dir, folderName);
    try {
      rmSync(path, { recursive: true, force: true });
      mkdirSync(path, { mode: 0o700 });
      return new ControlFolder(path, handlers, watch(path));
    } catch {
      return undefined;
    }
  }

  /** Stops accepting requests and waits for those in progress. */
  async close(): Promise<void> {
    this.#watcher.close();
    await Promise.all(this.#running);
    rmSync(this.#path, { recursive: true, force: true });
  }

  #accept(): void {
    for (const name of existsSync(this.#path) ? readdirSync(this.#path) : []) {
      if (!name.startsWith(requestPrefix)) continue;
      const id = name.slice(requestPrefix.length);
      const text = readFileSync(join(this.#path, name), "utf8");
      rmSync(join(this.#path, name), { force: true });
      const running = this.#answer(text, id).finally(() => this.#running.delete(running));
      this.#running.add(running);
    }
  }

  async #answer(text: string, id: string): Promise<void> {
    const answer = await answerTo(text, this.#handlers);
    try {
      writeWhole(this.#path, `${answerPrefix}${id}`, JSON.stringify(answer));
    } catch {
      // The requester notices when this process ends, or gives up.
    }
  }
}

async function answerTo(text: string, handlers: ControlHandlers): Promise<Answer> {
  try {
    const request = JSON.parse(text) as ControlRequest;
    return { result: request.kind === "backup" ? await handlers.backup(request.path) : await handlers.verify() };
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    return { error: { message, ...(error instanceof StorageError ? { code: error.code } : {}) } };
  }
}

/** A file that appears complete. */
function writeWhole(folder: string, name: string, text: string): void {
  const temporary = join(folder, `.${name}`);
  writeFileSync(temporary, text, { mode: 0o600 });
  renameSync(temporary, join(folder, name));
}

/**
 * Sends a request to the process that owns a data directory.
 *
 * **Errors**: rejects with the owner's error, or with a `StorageError` `InUse` if the owner does not respond.
 */
export async function requestFromOwner(dir: string, owner: number, request: ControlRequest): Promise<unknown> {
  const folder = join(dir, folderName);
  const id = randomUUID();
  const requestPath = join(folder, `${requestPrefix}${id}`);
  const answerPath = join(folder, `${answerPrefix}${id}`);
  const silent = new StorageError("InUse", `${dir} is in use by process ${owner}, which does not respond: stop it first`);
  if (!existsSync(folder)) throw silent;
  writeWhole(folder, `${requestPrefix}${id}`, JSON.stringify(request));
  const acceptUntil = performance.now() + acceptTimeoutMs;
  while (!existsSync(answerPath)) {
    await pause(checkIntervalMs);
    const isAccepted = !existsSync(requestPath);
    if (livingOwner(dir) !== owner || (!isAccepted && performance.now() > acceptUntil)) {
      rmSync(requestPath, { force: true });
      if (!existsSync(answerPath)) throw silent;
    }
  }
  const answer = JSON.parse(readFileSync(answerPath, "utf8")) as Answer;
  rmSync(answerPath, { force: true });
  if ("result" in answer) return answer.result;
  const { message, code } = answer.error;
  throw code === undefined ? new Error(message) : new StorageError(code, message);
}
