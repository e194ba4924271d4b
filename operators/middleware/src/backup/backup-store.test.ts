import { mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Agent, getGlobalDispatcher, setGlobalDispatcher } from "undici";
import { afterEach, describe, expect, it } from "vitest";
import { S3Server, s3Credentials } from "../testing/s3-server.ts";
import { type BackupStore, bytesOf } from "./backup-store.ts";
import { S3Store } from "./s3-store.ts";
import { VolumeStore } from "./volume-store.ts";

interface Harness extends AsyncDisposable {
  readonly store: BackupStore;
  /** Paths of all files, and of incomplete ones. */
  files(): Promise<readonly string[]>;
}

async function createVolume(): Promise<Harness> {
  const root = await mkdtemp(join(tmpdir(), "backup-store-"));
  return {
    store: new VolumeStore(root),
    files: async () =>
      (await readdir(root, { recursive: true, withFileTypes: true }))
        .filter((entry) => entry.isFile())
        .map((entry) => join(entry.parentPath, entry.name).slice(root.length + 1))
        .sort(),
    [Symbol.asyncDispose]: () => rm(root, { recursive: true }),
  };
}

async function createBucket(): Promise<Harness & { readonly server: S3Server }> {
  const server = await S3Server.start();
  return {
    server,
    store: new S3Store({ endpoint: server.endpoint, bucket: "backups", prefix: "team/a", ...s3Credentials }),
    files: () => Promise.resolve([...server.objects.keys()].map((key) => key.replace(/^team\/a\//, "")).sort()),
    [Symbol.asyncDispose]: () => server[Symbol.asyncDispose](),
  };
}

async function* failing(): AsyncGenerator<Uint8Array> {
  yield Buffer.alloc(9 << 20);
  yield Buffer.alloc(9 << 20);
  throw new Error("the source failed");
}

async function textOf(data: AsyncIterable<Uint8Array>): Promise<string> {
  const chunks: Uint8Array[] = [];
  for await (const chunk of data) chunks.push(chunk);
  return Buffer.concat(chunks).toString();
}

const open: AsyncDisposable[] = [];
afterEach(async () => {
  for (const each of open.splice(0)) await each[Symbol.asyncDispose]();
});
const using = async <T extends AsyncDisposable>(create: () => Promise<T>): Promise<T> => {
  const harness = await create();
  open.push(harness);
  return harness;
};

describe.each([
  ["a volume", createVolume],
  ["an S3 bucket", createBucket],
])("%s", (_, create) => {
  it("returns what was stored, and replaces a file", async () => {
    const { store, files } = await using<Harness>(create);
    await store.write("ns/a b/data", bytesOf("first"));
    await store.write("ns/a b/data", bytesOf("second, with ünïcode"));
    expect(await textOf(store.read("ns/a b/data"))).toBe("second, with ünïcode");
    expect(await files()).toEqual(["ns/a b/data"]);
  });

  it("lists the files of a directory without those below it, and deletes single ones", async () => {
    const { store } = await using<Harness>(create);
    for (const path of ["ns/log/2-b", "ns/log/1-a", "ns/log/below/c", "ns/log-2/d"]) await store.write(path, bytesOf(path));
    expect((await store.list("ns/log")).toSorted()).toEqual(["1-a", "2-b"]);
    await store.removeFile("ns/log/1-a");
    await store.removeFile("ns/log/1-a");
    expect([await store.list("ns/log"), await store.list("ns/none")]).toEqual([["2-b"], []]);
  });

  it("stores an empty file", async () => {
    const { store } = await using<Harness>(create);
    await store.write("a/empty", (async function* () {})());
    expect(await textOf(store.read("a/empty"))).toBe("");
  });

  it("shows no file whose source failed", async () => {
    const { store, files } = await using<Harness>(create);
    await expect(store.write("a/data", failing())).rejects.toThrow("the source failed");
    expect((await files()).filter((file) => !file.endsWith(".partial"))).toEqual([]);
    await expect(textOf(store.read("a/data"))).rejects.toMatchObject({ code: "NotFound" });
  });

  it("deletes a directory with incomplete files, and no other directory", async () => {
    const { store, files } = await using<Harness>(create);
    await store.write("a/1/data", bytesOf("x"));
    await store.write("a/10/data", bytesOf("y"));
    await store.write("a/1/data2", failing()).catch(() => undefined);
    await store.remove("a/1");
    await store.remove("a/missing");
    expect(await files()).toEqual(["a/10/data"]);
  });

  it("rejects paths outside it, and paths with more than one spelling", async () => {
    const { store, files } = await using<Harness>(create);
    for (const path of ["../x", "/etc/x", "a/../../x", "a/../b", "a/./b", "a//b", ".", ""]) {
      await expect(store.write(path, bytesOf("x")), path).rejects.toMatchObject({ code: "Storage" });
      await expect(textOf(store.read(path)), path).rejects.toMatchObject({ code: "Storage" });
      await expect(store.remove(path), path).rejects.toMatchObject({ code: "Storage" });
    }
    expect(await files()).toEqual([]);
  });
});

describe("an S3 bucket", () => {
  it("receives large files in parts", async () => {
    const { store, server } = await using(createBucket);
    const bytes = Buffer.alloc(17 << 20, "0123456789");
    await store.write(
      "large",
      (async function* () {
        for (let at = 0; at < bytes.length; at += 100_000) yield bytes.subarray(at, at + 100_000);
      })(),
    );
    expect(server.objects.get("team/a/large")?.equals(bytes)).toBe(true);
    expect(server.uploads.size).toBe(0);
  });

  it("does not depend on the dispatcher of the process, which other modules replace", async () => {
    const before = getGlobalDispatcher();
    const replaced = new Agent();
    setGlobalDispatcher(replaced);
    try {
      const { store } = await using(createBucket);
      await store.write("a/data", bytesOf("x"));
      expect(await textOf(store.read("a/data"))).toBe("x");
    } finally {
      setGlobalDispatcher(before);
      await replaced.close();
    }
  });

  it.each([
    ["sendsError", /not completed.*InternalError/],
    ["truncates", /has 18874367 bytes instead of 18874368/],
  ] as const)("rejects an upload whose completion %s with status 200", async (completion, message) => {
    const { store, server } = await using(createBucket);
    server.completion = completion;
    const large = (async function* () {
      yield Buffer.alloc(9 << 20);
      yield Buffer.alloc(9 << 20);
    })();
    await expect(store.write("large", large)).rejects.toMatchObject({ code: "Storage", message });
  });

  it("aborts an upload that fails", async () => {
    const { store, server } = await using(createBucket);
    await expect(store.write("large", failing())).rejects.toThrow("the source failed");
    expect(server.uploads.size).toBe(0);
  });

  it("reports the key of a failed request", async () => {
    const { store, server } = await using(createBucket);
    server.fails = (method) => method === "PUT";
    await expect(store.write("a/data", bytesOf("x"))).rejects.toMatchObject({ code: "Storage", message: /team\/a\/a\/data/ });
  });

  it("does not take a missing bucket for an empty directory", async () => {
    const { store, server } = await using(createBucket);
    await store.write("log/1-a", bytesOf("x"));
    server.hasBucket = false;
    await expect(store.list("log")).rejects.toMatchObject({ code: "Storage", message: /the bucket was not found/ });
    server.hasBucket = true;
    expect(await store.list("log")).toEqual(["1-a"]);
  });

  it("rejects wrong credentials", async () => {
    const { server } = await using(createBucket);
    const store = new S3Store({ endpoint: server.endpoint, bucket: "backups", accessKeyId: "AKIATEST", secretAccessKey: "no" });
    await expect(store.write("a", bytesOf("x"))).rejects.toMatchObject({
      code: "Storage",
      message: /SignatureDoesNotMatch|403/,
    });
  });
});
