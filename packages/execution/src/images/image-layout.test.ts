import { createHash } from "node:crypto";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { openImage } from "./image-layout.ts";
import { tarArchive as tar } from "../testing/tar-archive.ts";
import type { TarEntry as Entry } from "../testing/tar-archive.ts";
import { architecture } from "./image-manifest.ts";

let dir: string;
let temporary: string;

beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "keelson-layout-"));
  temporary = join(dir, "temporary");
  mkdirSync(temporary);
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

const hex = (content: string): string => createHash("sha256").update(content).digest("hex");

/** A whole image of one layer; `change` replaces a part. */
function parts(change: Readonly<Record<string, string>> = {}): { readonly entries: readonly Entry[]; readonly layer: string } {
  const entries: Entry[] = [];
  const put = (content: string): { readonly digest: string; readonly size: number; readonly mediaType: string } => {
    entries.push({ path: `blobs/sha256/${hex(content)}`, content: change[content] ?? content });
    return { digest: `sha256:${hex(content)}`, size: content.length, mediaType: "x" };
  };
  const layer = "layer";
  const config = put(JSON.stringify({ config: { Cmd: ["/bin/sh"] }, rootfs: { diff_ids: [`sha256:${hex(layer)}`] } }));
  const manifest = put(JSON.stringify({ config, layers: [put(layer)] }));
  const other = { ...manifest, platform: { os: "linux", architecture: "other" } };
  const mine = { ...manifest, platform: { os: "linux", architecture } };
  entries.push({ path: "index.json", content: change["index.json"] ?? JSON.stringify({ manifests: [other, mine] }) });
  return { entries, layer };
}

function archive(...entries: readonly Entry[]): string {
  const file = join(dir, "image.tar");
  writeFileSync(file, tar(...entries));
  return file;
}

test("reads the image in an archive and leaves nothing behind", async () => {
  const { entries } = parts();
  const image = await openImage(archive(...entries), { temporary });
  expect(image.config.command).toEqual(["/bin/sh"]);
  expect(image.manifest.layers.map((layer) => existsSync(image.blob(layer)))).toEqual([true]);
  await image.close();
  expect(readdirSync(temporary)).toEqual([]);
});

test.each<[string, readonly Entry[]]>([
  ["a path with ..", [{ path: "../escape", content: "x" }]],
  ["a path with .. behind a directory of the layout", [{ path: "blobs/sha256/../../../escape", content: "x" }]],
  ["an absolute path", [{ path: "/tmp/keelson-escape", content: "x" }]],
  [
    "a file through a symbolic link",
    [
      { path: "blobs", type: "SymbolicLink", linkpath: "../.." },
      { path: "blobs/sha256/escape", content: "x" },
    ],
  ],
  ["a hard link out", [{ path: `blobs/sha256/${"a".repeat(64)}`, type: "Link", linkpath: "../../../../secret" }]],
])("writes nothing outside for an archive with %s, and still reads the image in it", async (_, hostile) => {
  writeFileSync(join(dir, "secret"), "secret");
  const image = await openImage(archive(...hostile, ...parts().entries), { temporary });
  expect(readdirSync(dir).sort()).toEqual(["image.tar", "secret", "temporary"]);
  expect(existsSync("/tmp/keelson-escape")).toBe(false);
  await image.close();
  expect(readdirSync(temporary)).toEqual([]);
});

test.each<[string, () => readonly Entry[], RegExp]>([
  ["a changed layer", () => parts({ layer: "LAYER" }).entries, /damaged/],
  ["a longer layer", () => parts({ layer: "layer and more" }).entries, /damaged/],
  ["a layer that is a symbolic link", () => withLink(), /missing/],
  ["no index", () => [{ path: "other", content: "x" }], /no index\.json/],
  ["an index that is not JSON", () => parts({ "index.json": "{" }).entries, /not valid JSON/],
  ["nothing for this architecture", () => parts({ "index.json": '{"manifests":[]}' }).entries, /no manifest for linux/],
  [
    "a digest that is a path",
    () => parts({ "index.json": '{"manifests":[{"mediaType":"x","size":1,"digest":"sha256:../../../secret"}]}' }).entries,
    /not a valid sha256 digest/,
  ],
])("rejects an archive with %s and leaves nothing behind", async (_, entries, reason) => {
  writeFileSync(join(dir, "secret"), "layer");
  await expect(openImage(archive(...entries()), { temporary })).rejects.toThrow(reason);
  expect(readdirSync(temporary)).toEqual([]);
});

function withLink(): readonly Entry[] {
  const { entries, layer } = parts();
  const path = `blobs/sha256/${hex(layer)}`;
  return [...entries.filter((entry) => entry.path !== path), { path, type: "SymbolicLink", linkpath: "../../../../secret" }];
}

test("rejects an archive above the size limit", async () => {
  await expect(openImage(archive(...parts().entries), { temporary, maxBytes: 10 })).rejects.toMatchObject({ code: "TooLarge" });
  expect(readdirSync(temporary)).toEqual([]);
});

test("rejects a truncated archive", async () => {
  const file = join(dir, "image.tar");
  writeFileSync(file, tar(...parts().entries).subarray(0, 700));
  await expect(openImage(file, { temporary })).rejects.toMatchObject({ code: "Invalid" });
});
