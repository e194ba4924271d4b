import { randomUUID } from "node:crypto";
import {
  chownSync,
  closeSync,
  constants,
  fchmodSync,
  fchownSync,
  lstatSync,
  openSync,
  renameSync,
  rmSync,
  writeSync,
} from "node:fs";
import { basename, dirname } from "node:path";
import type { UserIds } from "@keelson/execution";
import { openBeneath } from "@keelson/execution/files";
import { RobotsError } from "../../robots-error.ts";

/** A file of a task's directory that is being written. */
export interface FileWriter extends Disposable {
  write(chunk: Uint8Array): void;
}

/**
 * Writes files and directories below a task's directory.
 *
 * **Guarantees**: nothing is written outside the directory, whatever links an earlier attempt or a program that still runs has left or creates
 * in the meantime. Everything belongs to the task's user.
 */
export class TaskFolder {
  readonly #dir: string;
  readonly #owner: UserIds | undefined;

  /** `owner`: undefined if the task runs as the agent's user. */
  constructor(dir: string, owner: UserIds | undefined) {
    this.#dir = dir;
    this.#owner = process.getuid?.() === 0 ? owner : undefined;
  }

  /** Creates a directory with its parents. `path` is relative, without `..`. */
  createFolder(path: string): void {
    const parts = path.split("/").filter((part) => part !== "" && part !== ".");
    for (let count = 1; count <= parts.length; count++) {
      using folder = openBeneath(this.#dir, parts.slice(0, count).join("/"), {
        kind: "directory",
        create: { directoryMode: 0o755, fileMode: 0o644 },
      });
      if (this.#owner !== undefined) chownSync(folder.path, this.#owner.uid, this.#owner.gid);
    }
  }

  /** Replaces a file, with its parents. `path` is relative, without `..`. */
  createFile(path: string, mode: number): FileWriter {
    const folderPath = dirname(path);
    this.createFolder(folderPath);
    using folder = openBeneath(this.#dir, folderPath, { kind: "directory" });
    const target = `${folder.path}/${basename(path)}`;
    const present = lstatSync(target, { throwIfNoEntry: false });
    if (present?.isDirectory() === true) throw new RobotsError("ArtifactFailed", `${path} is a directory`);
    rmSync(target, { force: true });
    return this.#openNew(target, mode);
  }

  /** Replaces a small file atomically: a program that reads it sees the old or the new content. */
  replaceFile(path: string, content: Uint8Array, mode: number): void {
    const folderPath = dirname(path);
    this.createFolder(folderPath);
    using folder = openBeneath(this.#dir, folderPath, { kind: "directory" });
    const target = `${folder.path}/${basename(path)}`;
    if (lstatSync(target, { throwIfNoEntry: false })?.isDirectory() === true) {
      throw new RobotsError("InvalidTemplate", `${path} is a directory`);
    }
    const draft = `${folder.path}/.${randomUUID()}`;
    try {
      using file = this.#openNew(draft, mode);
      file.write(content);
      renameSync(draft, target);
    } catch (error) {
      rmSync(draft, { force: true });
      throw error;
    }
  }

  #openNew(target: string, mode: number): FileWriter {
    const flags = constants.O_CREAT | constants.O_EXCL | constants.O_WRONLY | constants.O_NOFOLLOW;
    const file = openSync(target, flags, 0o600);
    try {
      if (this.#owner !== undefined) fchownSync(file, this.#owner.uid, this.#owner.gid);
      fchmodSync(file, mode & 0o777);
    } catch (error) {
      closeSync(file);
      throw error;
    }
    let isOpen = true;
    return {
      write(chunk) {
        for (let at = 0; at < chunk.length; ) at += writeSync(file, chunk, at);
      },
      [Symbol.dispose]() {
        if (isOpen) closeSync(file);
        isOpen = false;
      },
    };
  }
}
