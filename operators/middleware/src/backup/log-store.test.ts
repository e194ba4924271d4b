import { mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { BackupStore } from "./backup-store.ts";
import { LogStore } from "./log-store.ts";
import { VolumeStore } from "./volume-store.ts";

let root: string;
beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), "log-"));
});
afterEach(() => rm(root, { recursive: true, force: true }));

const key = Buffer.alloc(32, 7);
let salts = 0;
const open = (encryptionKey?: Uint8Array): Promise<LogStore> =>
  LogStore.open({
    store: new VolumeStore(root),
    folder: "app/log",
    encryptionKey,
    randomBytes: (length) => Buffer.alloc(length, ++salts),
  });
const content = async (store: LogStore, name: string): Promise<string> => {
  const chunks: Uint8Array[] = [];
  for await (const chunk of store.read(name)) chunks.push(chunk);
  return Buffer.concat(chunks).toString();
};
const files = (): Promise<string[]> => readdir(join(root, "app/log"));

describe.each([["plain", undefined] as const, ["encrypted", key] as const])("an archive that is %s", (_, encryptionKey) => {
  it("keeps files in the order in which they were stored, including for the next process", async () => {
    const store = await open(encryptionKey);
    await store.put("b", Buffer.from("one"));
    await store.put("a", Buffer.from("two"));
    const next = await open(encryptionKey);
    await next.put("c", Buffer.from("three"));
    expect((await files()).toSorted()).toEqual(["000000000001-b", "000000000002-a", "000000000003-c"]);
    expect([await content(next, "b"), await content(next, "c")]).toEqual(["one", "three"]);
    expect(await next.verify("a")).toBe(2);
  });

  it("accepts a file again that was stored and not confirmed, and refuses other content under its name", async () => {
    await (await open(encryptionKey)).put("a", Buffer.from("one"));
    const next = await open(encryptionKey);
    await next.put("a", Buffer.from("one"));
    await expect(next.put("a", Buffer.from("other"))).rejects.toMatchObject({ code: "Damaged" });
    expect([await files(), await content(next, "a")]).toEqual([["000000000001-a"], "one"]);
  });

  it("detects damage", async () => {
    await (await open(encryptionKey)).put("a", Buffer.from("one"));
    const file = join(root, "app/log/000000000001-a");
    const bytes = await readFile(file);
    bytes.writeUInt8(bytes.readUInt8(bytes.length - 6) ^ 1, bytes.length - 6);
    await writeFile(file, bytes);
    await expect((await open(encryptionKey)).verify("a")).rejects.toThrow(/damaged|decrypted/);
  });

  it("deletes what was stored before a file, and nothing if it does not know the file", async () => {
    const store = await open(encryptionKey);
    for (const name of ["a", "b", "c"]) await store.put(name, Buffer.from(name));
    expect([await store.deleteBefore(["x", "c"]), await store.deleteBefore([])]).toEqual([0, 0]);
    // One backup needs less than another one that was taken before.
    expect(await store.deleteBefore(["c", "b"])).toBe(1);
    expect(await store.deleteBefore(["c"])).toBe(1);
    expect([...(await open(encryptionKey)).names]).toEqual(["c"]);
    await expect(store.verify("a")).rejects.toMatchObject({ code: "NotFound" });
  });
});

it("stores a file again whose writer may have died before the file was durable, and no file with the name of a path", async () => {
  const volume = new VolumeStore(root);
  const written: string[] = [];
  const store: BackupStore = {
    write: (path, data) => volume.write(path, data).then(() => void written.push(path)),
    read: (path) => volume.read(path),
    list: (path) => volume.list(path),
    remove: (path) => volume.remove(path),
    removeFile: (path) => volume.removeFile(path),
  };
  const options = { store, folder: "log", encryptionKey: undefined, randomBytes: Buffer.alloc };
  await (await LogStore.open(options)).put("a", Buffer.from("one"));
  const next = await LogStore.open(options);
  await next.put("a", Buffer.from("one"));
  expect(written).toEqual(["log/000000000001-a", "log/000000000001-a"]);
  for (const name of ["", "a/b", "../a", "a\n"])
    await expect(next.put(name, Buffer.from("x"))).rejects.toMatchObject({ code: "Storage" });
});

it("ignores files whose writer has died", async () => {
  await (await open()).put("a", Buffer.from("one"));
  await writeFile(join(root, "app/log/000000000002-b.partial"), "half");
  const store = await open();
  expect([...store.names]).toEqual(["a"]);
  await store.put("b", Buffer.from("two"));
  expect(await content(store, "b")).toBe("two");
});
