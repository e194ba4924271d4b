import { createHash } from "node:crypto";
import { existsSync, lstatSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { afterEach, beforeEach, expect, test } from "vitest";
import { tarArchive as tar } from "../testing/tar-archive.ts";
import type { TarEntry } from "../testing/tar-archive.ts";
import { openUnpackedImages } from "./unpacked-images.ts";
import { unpackLayer } from "./unpack-layer.ts";

let dir: string;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "keelson-images-"));
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

async function unpack(layer: Uint8Array, limits = { bytes: 1e6, entries: 100 }): Promise<void> {
  mkdirSync(join(dir, "root"));
  writeFileSync(join(dir, "secret"), "secret");
  writeFileSync(join(dir, "layer"), layer);
  await unpackLayer(join(dir, "root"), join(dir, "layer"), limits);
}

const link = (path: string, linkpath: string): TarEntry => ({ path, type: "SymbolicLink", linkpath });
const hardLink = (path: string, linkpath: string): TarEntry => ({ path, type: "Link", linkpath });

test.each([
  ["a path with ..", tar({ path: "../escape", content: "x" })],
  ["a path with .. inside", tar({ path: "a/../../escape", content: "x" })],
  ["a file through a link", tar(link("a", ".."), { path: "a/escape", content: "x" })],
  ["a file through an absolute link", tar(link("a", "/"), { path: "a/b/escape", content: "x" })],
  ["a hard link out", tar(hardLink("a", "../secret"))],
  ["a hard link through a link", tar(link("a", ".."), hardLink("b", "a/secret"))],
  ["a hard link to a link", tar(link("a", "../secret"), hardLink("b", "a"))],
  ["a whiteout of ..", tar({ path: ".wh..." })],
  ["a whiteout through a link", tar(link("a", ".."), { path: "a/.wh.secret" })],
  ["an opaque whiteout through a link", tar(link("a", ".."), { path: "a/.wh..wh..opq" })],
  ["too many bytes", tar({ path: "a", content: Buffer.alloc(1_000_001) })],
  ["too many bytes after decompression", gzipSync(tar({ path: "a", content: Buffer.alloc(1_000_001) }))],
  ["too many files", tar(...Array.from({ length: 101 }, (_, index) => ({ path: `f${index}` })))],
  ["a truncated archive", tar({ path: "a", content: "xxxx" }).subarray(0, 514)],
  ["a truncated gzip stream", gzipSync(tar({ path: "a", content: "xxxx" })).subarray(0, 40)],
  ["a header with a wrong checksum", Buffer.concat([Buffer.from("b"), tar({ path: "a", content: "xxxx" }).subarray(1)])],
])("rejects a layer with %s and touches nothing outside", async (_, layer) => {
  await expect(unpack(layer)).rejects.toMatchObject({ name: "ImageError" });
  expect(readdirSync(dir).sort()).toEqual(["layer", "root", "secret"]);
  expect(readFileSync(join(dir, "secret"), "utf8")).toBe("secret");
  expect(lstatSync(join(dir, "secret")).nlink).toBe(1);
});

test("replaces a link with a file instead of writing through it, drops its set-uid bit, and skips devices", async () => {
  await unpack(
    tar(link("a", "../secret"), { path: "a", content: "new", mode: 0o4755 }, { path: "device", type: "CharacterDevice" }),
  );
  expect(readFileSync(join(dir, "root", "a"), "utf8")).toBe("new");
  expect(lstatSync(join(dir, "root", "a")).mode & 0o7777).toBe(0o755);
  expect(readFileSync(join(dir, "secret"), "utf8")).toBe("secret");
  expect(readdirSync(join(dir, "root"))).toEqual(["a"]);
});

test("lets everyone read what the owner may read, so that root of a private user sees its image", async () => {
  await unpack(
    tar(
      { path: "root/", type: "Directory", mode: 0o700 },
      { path: "root/.profile", content: "x", mode: 0o600 },
      { path: "run", content: "x", mode: 0o711 },
    ),
  );
  const modeOf = (path: string): number => lstatSync(join(dir, "root", path)).mode & 0o777;
  expect(["root", "root/.profile", "run"].map(modeOf)).toEqual([0o755, 0o644, 0o755]);
});

test("unpacks a file larger than one chunk of the archive", async () => {
  const content = Buffer.alloc(300_000, "0123456789");
  await unpack(gzipSync(tar({ path: "large", content }, { path: "next", content: "x" })));
  expect(readFileSync(join(dir, "root", "large")).equals(content)).toBe(true);
  expect(readFileSync(join(dir, "root", "next"), "utf8")).toBe("x");
});

/** An OCI archive of an image with these layers. */
function archive(...layers: readonly Uint8Array[]): string {
  const blobs: TarEntry[] = [];
  const put = (content: Uint8Array): { digest: string; size: number } => {
    const hex = createHash("sha256").update(content).digest("hex");
    blobs.push({ path: `blobs/sha256/${hex}`, content });
    return { digest: `sha256:${hex}`, size: content.length };
  };
  const config = put(Buffer.from(JSON.stringify({ config: { Env: ["A=b=c"], Cmd: ["/bin/sh"], WorkingDir: "/etc" } })));
  const manifest = put(Buffer.from(JSON.stringify({ config, layers: layers.map(put) })));
  const file = join(dir, "image.tar");
  writeFileSync(file, tar({ path: "index.json", content: JSON.stringify({ manifests: [manifest] }) }, ...blobs));
  return file;
}

const first = gzipSync(
  tar(
    { path: "bin/", type: "Directory", mode: 0o755 },
    { path: "bin/sh", content: "sh", mode: 0o755 },
    { path: "etc/gone", content: "x" },
  ),
);
const second = tar({ path: "etc/.wh.gone" }, { path: "etc/kept", content: "y" }, hardLink("bin/busy", "bin/sh"));

test("unpacks an image once for all its names, and shows it to every process", async () => {
  const store = join(dir, "store");
  const images = await openUnpackedImages(store);
  const other = await openUnpackedImages(store);
  const steps: string[] = [];
  const file = archive(first, second);
  const image = await images.import(file, {
    name: "busybox",
    onProgress: ({ layer, layers }) => steps.push(`${layer}/${layers}`),
  });
  expect(steps).toEqual(["1/2", "2/2"]);
  expect(image).toMatchObject({ name: "docker.io/library/busybox:latest", command: ["/bin/sh"], env: { A: "b=c" } });
  expect(existsSync(join(image.root, "etc/gone"))).toBe(false);
  expect(readFileSync(join(image.root, "bin/busy"), "utf8")).toBe("sh");
  const again = await other.import(file, {
    name: "example.org/tool:2",
    onProgress: () => expect.unreachable("the image is already unpacked"),
  });
  expect(again.root).toBe(image.root);
  expect(other.find("busybox:latest")).toEqual(image);
  expect(images.list().map(({ name }) => name)).toEqual(["docker.io/library/busybox:latest", "example.org/tool:2"]);
  expect(images.find("../../etc")).toBeUndefined();

  expect(await other.remove("busybox")).toBe(true);
  expect(await images.remove("busybox")).toBe(false);
  expect(existsSync(join(again.root, "bin/sh"))).toBe(true);
  expect(await images.remove("example.org/tool:2")).toBe(true);
  expect(readdirSync(store)).toEqual(["names"]);
});

test("leaves nothing of a damaged image, nor of a process that died while unpacking", async () => {
  const store = join(dir, "store");
  mkdirSync(join(store, `${"a".repeat(64)}.${process.pid}-1.0a.partial`, "rootfs"), { recursive: true });
  const images = await openUnpackedImages(store);
  await expect(
    images.import(archive(first, tar({ path: "a", content: "xxxx" }).subarray(0, 514)), { name: "busybox" }),
  ).rejects.toMatchObject({
    code: "Invalid",
  });
  await expect(images.import(archive(first), { name: "not a name" })).rejects.toThrow("not a valid image name");
  await expect(images.import(archive(first))).rejects.toThrow("does not record a name");
  expect(images.list()).toEqual([]);
  expect(readdirSync(store).filter((entry) => entry.endsWith(".partial"))).toEqual([]);
});
