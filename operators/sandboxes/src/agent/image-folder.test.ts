import { createHash } from "node:crypto";
import { existsSync, lstatSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { afterEach, beforeEach, expect, it } from "vitest";
import { openImageFolder } from "./image-folder.ts";
import { normalizeImage } from "./image-store.ts";
import { unpackLayer } from "./unpack-layer.ts";

let dir: string;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "images-"));
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

interface Item {
  readonly path: string;
  readonly type?: string;
  readonly content?: string | Uint8Array;
  readonly link?: string;
  readonly mode?: number;
}

function tar(...items: readonly Item[]): Buffer {
  const blocks = items.flatMap(({ path, type = "0", content = "", link = "", mode = 0o644 }) => {
    const bytes = Buffer.from(content);
    const header = Buffer.alloc(512);
    header.write(path, 0);
    header.write(`${mode.toString(8).padStart(7, "0")}\0`, 100);
    header.write(`${bytes.length.toString(8).padStart(11, "0")}\0`, 124);
    header.write(type, 156);
    header.write(link, 157);
    header.write("ustar\u000000", 257);
    header.fill(32, 148, 156);
    const sum = header.reduce((total, byte) => total + byte, 0);
    header.write(`${sum.toString(8).padStart(6, "0")}\0 `, 148);
    return [header, bytes, Buffer.alloc((512 - (bytes.length % 512)) % 512)];
  });
  return Buffer.concat([...blocks, Buffer.alloc(1024)]);
}

const unpack = (archive: Uint8Array): void => unpackLayer(join(dir, "root"), archive, { bytes: 1e6, entries: 1000 });

it.each([
  ["a path with ..", tar({ path: "../escape", content: "x" })],
  ["a path with .. inside", tar({ path: "a/../../escape", content: "x" })],
  ["a file through a link", tar({ path: "a", type: "2", link: ".." }, { path: "a/escape", content: "x" })],
  ["a file through an absolute link", tar({ path: "a", type: "2", link: "/" }, { path: "a/b/escape", content: "x" })],
  ["a hard link out", tar({ path: "a", type: "1", link: "../secret" })],
  ["a hard link through a link", tar({ path: "a", type: "2", link: ".." }, { path: "b", type: "1", link: "a/secret" })],
  ["a hard link to a link", tar({ path: "a", type: "2", link: "../secret" }, { path: "b", type: "1", link: "a" })],
  ["a whiteout of ..", tar({ path: ".wh...", content: "" })],
  ["a whiteout through a link", tar({ path: "a", type: "2", link: ".." }, { path: "a/.wh.secret", content: "" })],
  ["an opaque whiteout through a link", tar({ path: "a", type: "2", link: ".." }, { path: "a/.wh..wh..opq", content: "" })],
  ["too many bytes", tar({ path: "a", content: Buffer.alloc(1_000_001) })],
  ["an archive that is cut off", tar({ path: "a", content: "xxxx" }).subarray(0, 514)],
])("refuses %s, and nothing outside is touched", (_, archive) => {
  mkdirSync(join(dir, "root"));
  writeFileSync(join(dir, "secret"), "secret");
  expect(() => unpack(archive)).toThrow();
  expect(readdirSync(dir).sort()).toEqual(["root", "secret"]);
  expect(readFileSync(join(dir, "secret"), "utf8")).toBe("secret");
  expect(lstatSync(join(dir, "secret")).nlink).toBe(1);
});

it("puts a file in the place of a link, not through it", () => {
  mkdirSync(join(dir, "root"));
  writeFileSync(join(dir, "secret"), "secret");
  unpack(tar({ path: "a", type: "2", link: "../secret" }, { path: "a", content: "new", mode: 0o4755 }));
  expect(readFileSync(join(dir, "root", "a"), "utf8")).toBe("new");
  expect(lstatSync(join(dir, "root", "a")).mode & 0o7777).toBe(0o755);
  expect(readFileSync(join(dir, "secret"), "utf8")).toBe("secret");
});

it("unpacks an OCI archive by digest once, layers over one another with whiteouts, and knows it after a restart", async () => {
  const layers = [
    gzipSync(
      tar(
        { path: "bin/", type: "5", mode: 0o755 },
        { path: "bin/sh", content: "sh", mode: 0o755 },
        { path: "etc/gone", content: "x" },
      ),
    ),
    tar({ path: "etc/.wh.gone" }, { path: "etc/kept", content: "y" }, { path: "bin/busy", type: "1", link: "bin/sh" }),
  ];
  const blobs: Item[] = [];
  const put = (bytes: Uint8Array): { digest: string; size: number } => {
    const hex = createHash("sha256").update(bytes).digest("hex");
    blobs.push({ path: `blobs/sha256/${hex}`, content: bytes });
    return { digest: `sha256:${hex}`, size: bytes.length };
  };
  const config = put(Buffer.from(JSON.stringify({ config: { Env: ["A=b=c"], Cmd: ["/bin/sh"], WorkingDir: "/etc" } })));
  const manifest = put(Buffer.from(JSON.stringify({ config, layers: layers.map(put) })));
  const archive = tar({ path: "index.json", content: JSON.stringify({ manifests: [manifest] }) }, ...blobs);
  const images = await openImageFolder(dir);
  const digest = await images.add("busybox", archive);
  expect(await images.add("docker.io/library/busybox:latest", archive)).toBe(digest);
  const again = await openImageFolder(dir);
  const image = again.find("busybox:latest");
  expect(image).toMatchObject({
    command: ["/bin/sh"],
    env: { A: "b=c" },
    workingDir: "/etc",
    root: join(dir, digest, "rootfs"),
  });
  expect(existsSync(join(image?.root ?? "", "etc/gone"))).toBe(false);
  expect(readFileSync(join(image?.root ?? "", "bin/busy"), "utf8")).toBe("sh");
  const damaged = Buffer.from(archive);
  damaged[damaged.indexOf("Cmd")] = 0x63;
  await expect(again.add("other", damaged)).rejects.toThrow(/damaged/);
  expect(again.find("other")).toBeUndefined();
});

it.each([
  ["alpine", "docker.io/library/alpine:latest"],
  ["alpine:3", "docker.io/library/alpine:3"],
  ["me/tool", "docker.io/me/tool:latest"],
  ["localhost:5000/tool", "localhost:5000/tool:latest"],
  ["ghcr.io/me/tool@sha256:0", "ghcr.io/me/tool@sha256:0"],
  ["host", "host"],
])("normalizes %s to %s (C13)", (short, full) => {
  expect(normalizeImage(short)).toBe(full);
});
