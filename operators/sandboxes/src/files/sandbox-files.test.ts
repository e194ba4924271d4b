import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { type FileOperation, inodeOf, isInode, maxChunkBytes } from "./file-operations.ts";
import { runFileOperation } from "./sandbox-files.ts";

let base: string;
let root: string;
const upload = "0".repeat(32);

const run = (operation: FileOperation) => runFileOperation(root, operation);
const read = (path: string): string => Buffer.from(run({ kind: "read", path, offset: 0 }).data ?? []).toString();
const write = (path: string, text: string, mode = 0o644) => {
  run({ kind: "write", path, upload, offset: 0, data: Buffer.from(text) });
  return run({ kind: "commit", path, upload, mode });
};
const codeOf = (operation: FileOperation): unknown => {
  try {
    run(operation);
  } catch (error) {
    return (error as { code: unknown }).code;
  }
  return undefined;
};

beforeEach(() => {
  base = mkdtempSync(join(tmpdir(), "sandbox-files-"));
  root = join(base, "root");
  mkdirSync(join(root, "work"), { recursive: true });
  mkdirSync(join(root, "etc"));
  writeFileSync(join(root, "etc", "passwd"), "inside");
  writeFileSync(join(base, "secret"), "outside");
});

afterEach(() => rmSync(base, { recursive: true, force: true }));

describe("the files of a sandbox", () => {
  it("are written, read, listed and removed, relative to the work directory or absolute", () => {
    expect(write("../work/one", "text", 0o4755).info).toMatchObject({ name: "one", type: "file", sizeBytes: 4, mode: 0o755 });
    expect([read("one"), read("/work/one"), read("/work//./one")]).toEqual(["text", "text", "text"]);
    run({ kind: "make-directory", path: "deep/er" });
    run({ kind: "make-directory", path: "deep/er" });
    symlinkSync("one", join(root, "work", "link"));
    expect(run({ kind: "list", path: "." }).entries).toMatchObject([
      { name: "deep", type: "directory" },
      { name: "link", type: "symlink", target: "one" },
      { name: "one", type: "file", sizeBytes: 4 },
    ]);
    expect(codeOf({ kind: "remove", path: "deep", isRecursive: false })).toBe("Conflict");
    run({ kind: "remove", path: "deep", isRecursive: true });
    run({ kind: "remove", path: "link", isRecursive: true });
    expect(run({ kind: "list", path: "/work" }).entries?.map(({ name }) => name)).toEqual(["one"]);
  });

  it("may be entries of the root", () => {
    write("/top", "text");
    expect([read("/top"), run({ kind: "stat", path: "/" }).info?.name]).toEqual(["text", "/"]);
    expect(existsSync(join(root, "top"))).toBe(true);
  });

  it("are not replaced before all of an upload has arrived", () => {
    write("one", "old");
    run({ kind: "write", path: "one", upload, offset: 0, data: Buffer.from("new") });
    expect(read("one")).toBe("old");
    run({ kind: "abort", path: "one", upload });
    expect(codeOf({ kind: "commit", path: "one", upload, mode: 0o600 })).toBe("NotFound");
    expect(run({ kind: "list", path: "." }).entries).toHaveLength(1);
  });

  it("are read as one version: a replaced file ends the read", () => {
    write("one", "old");
    const { inode } = run({ kind: "read", path: "one", offset: 0 });
    // The old file keeps its inode while the new one is created.
    write("one", "new");
    expect(codeOf({ kind: "read", path: "one", offset: 3, ...(inode !== undefined && { inode }) })).toBe("Conflict");
  });

  it("are read, whatever the size of their inodes", () => {
    const numbers = [7n, 2n ** 53n, 2n ** 53n + 1n, 9_223_372_036_865_870_145n, 2n ** 64n - 1n];
    expect(numbers.map(inodeOf)).toEqual([7, ...numbers.slice(1).map(String)]);
    expect(numbers.map(inodeOf).every(isInode)).toBe(true);
    write("one", "old");
    const { inode } = run({ kind: "read", path: "one", offset: 0 });
    expect(inode).toBe(inodeOf(statSync(join(root, "work", "one"), { bigint: true }).ino));
  });

  it.each([
    ["no such file", { kind: "read", path: "none", offset: 0 }, "NotFound"],
    ["a directory as a file", { kind: "read", path: ".", offset: 0 }, "Conflict"],
    ["a file as a directory", { kind: "list", path: "/etc/passwd" }, "Conflict"],
    ["a path with NUL", { kind: "stat", path: "a\0b" }, "Invalid"],
    ["an empty path", { kind: "stat", path: "" }, "Invalid"],
    ["a long path", { kind: "stat", path: "a/".repeat(4000) }, "Invalid"],
    ["a long name", { kind: "stat", path: "a".repeat(300) }, "Invalid"],
    ["the root itself", { kind: "remove", path: "/", isRecursive: true }, "Invalid"],
    ["a directory's own name", { kind: "remove", path: "work/..", isRecursive: true }, "Invalid"],
    ["a directory as the target", { kind: "commit", path: "/etc", upload, mode: 0 }, "Conflict"],
    ["a foreign upload", { kind: "write", path: "one", upload: "../../x", offset: 0, data: Buffer.alloc(1) }, "Invalid"],
    ["a large chunk", { kind: "write", path: "one", upload, offset: 0, data: Buffer.alloc(maxChunkBytes + 1) }, "Invalid"],
  ] satisfies [string, FileOperation, string][])("reject %s", (_, operation, code) => {
    expect(codeOf(operation)).toBe(code);
  });
});

describe("a hostile sandbox", () => {
  it.each(["/etc/passwd", "../../../../../../etc/passwd", "/../../etc/passwd", "../etc/passwd"])(
    "leads a link to %s to its own files",
    (target) => {
      symlinkSync(target, join(root, "work", "link"));
      expect(read("link")).toBe("inside");
    },
  );

  it.each(["secret", "../secret", "../../secret"])("cannot reach a file alongside its root at %s", (path) => {
    symlinkSync(join(base, "secret"), join(root, "work", "absolute"));
    symlinkSync("../../secret", join(root, "work", "relative"));
    for (const each of [path, "absolute", "relative"]) expect(codeOf({ kind: "read", path: each, offset: 0 })).toBe("NotFound");
  });

  it("cannot make a write, a removal or a new directory follow a link out of the root", () => {
    symlinkSync(base, join(root, "work", "out"));
    symlinkSync(join(base, "secret"), join(root, "work", "file"));
    expect(codeOf({ kind: "write", path: "out/new", upload, offset: 0, data: Buffer.from("x") })).toBe("NotFound");
    write("file", "own");
    run({ kind: "remove", path: "out", isRecursive: true });
    mkdirSync(join(root, "work", "tree"));
    symlinkSync(base, join(root, "work", "tree", "out"));
    run({ kind: "remove", path: "tree", isRecursive: true });
    expect(readFileSync(join(base, "secret"), "utf8")).toBe("outside");
    expect(existsSync(join(base, "new"))).toBe(false);
    expect(statSync(root).isDirectory()).toBe(true);
  });

  it("cannot block a read with a pipe, nor follow a circle of links", () => {
    execFileSync("mkfifo", [join(root, "work", "pipe")]);
    expect(codeOf({ kind: "read", path: "pipe", offset: 0 })).toBe("Conflict");
    symlinkSync("circle", join(root, "work", "circle"));
    expect(codeOf({ kind: "read", path: "circle", offset: 0 })).toBe("Conflict");
  });

  it("cannot block an upload with a pipe in its place", () => {
    const pipe = join(root, "work", `.keelson-upload-${upload}`);
    run({ kind: "write", path: "one", upload, offset: 0, data: Buffer.from("x") });
    rmSync(pipe);
    execFileSync("mkfifo", [pipe]);
    expect(codeOf({ kind: "write", path: "one", upload, offset: 1, data: Buffer.from("x") })).toBe("Conflict");
    expect(codeOf({ kind: "commit", path: "one", upload, mode: 0o600 })).toBe("Conflict");
  });

  it("cannot place a link where an upload is written", () => {
    symlinkSync(join(base, "secret"), join(root, "work", `.keelson-upload-${upload}`));
    expect(codeOf({ kind: "write", path: "one", upload, offset: 0, data: Buffer.from("x") })).toBe("Conflict");
    expect(codeOf({ kind: "write", path: "one", upload, offset: 1, data: Buffer.from("x") })).toBe("Conflict");
    expect(codeOf({ kind: "commit", path: "one", upload, mode: 0o600 })).toBe("Conflict");
    expect(readFileSync(join(base, "secret"), "utf8")).toBe("outside");
  });
});
