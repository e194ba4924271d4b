import { createHash } from "node:crypto";
import { mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { createImage, type CreateImageOptions } from "./create-image.ts";
import { openImage } from "./image-layout.ts";
import { openUnpackedImages } from "./unpacked-images.ts";

function folder(): string {
  const dir = mkdtempSync(join(tmpdir(), "create-image-"));
  onTestFinished(() => rmSync(dir, { recursive: true, force: true }));
  return dir;
}

const longName = `${"x".repeat(90)}/${"y".repeat(90)}`;

function options(dir: string, file: string): CreateImageOptions {
  const source = join(dir, "source");
  writeFileSync(source, "from a file\n");
  return {
    file: join(dir, file),
    name: "example.org/tool:1",
    layers: [
      { description: "base", entries: [{ path: "/bin/tool", mode: 0o755, content: { kind: "file", source } }] },
      {
        description: "more",
        entries: [
          { path: `/opt/${longName}`, mode: 0o644, content: { kind: "text", text: "long\n" } },
          { path: "/usr/bin/tool", mode: 0o777, content: { kind: "link", target: "../../bin/tool" } },
          { path: "/tmp", mode: 0o1777, content: { kind: "folder" } },
        ],
      },
    ],
    config: { Entrypoint: ["/bin/tool"], User: "65532" },
  };
}

test("writes an image that opens and unpacks to its entries", async () => {
  const dir = folder();
  const created = await createImage(options(dir, "image.tar"));
  expect(created.layerBytes).toHaveLength(2);
  const image = await openImage(join(dir, "image.tar"), { temporary: dir });
  expect(image.target.digest).toBe(created.digest);
  expect(image.name).toBe("example.org/tool:1");
  expect(image.config).toMatchObject({ entrypoint: ["/bin/tool"], user: "65532" });
  await image.close();
  const images = await openUnpackedImages(join(dir, "images"));
  const { root } = await images.import(join(dir, "image.tar"), { name: "example.org/tool:1" });
  expect(readFileSync(join(root, "usr/bin/tool"), "utf8")).toBe("from a file\n");
  expect(readFileSync(join(root, "opt", longName), "utf8")).toBe("long\n");
});

test("writes equal bytes for equal contents, whatever the order and the times of the sources", async () => {
  const dir = folder();
  const digest = (file: string): string =>
    createHash("sha256")
      .update(readFileSync(join(dir, file)))
      .digest("hex");
  const first = options(dir, "a.tar");
  await createImage(first);
  const second = options(dir, "b.tar");
  await createImage({
    ...second,
    layers: second.layers.map(({ entries, ...layer }) => ({ ...layer, entries: entries.toReversed() })),
  });
  expect(digest("b.tar")).toBe(digest("a.tar"));
});

test("trades the size of an archive for the time to write it", async () => {
  const dir = folder();
  const small = await createImage(options(dir, "small.tar"));
  const fast = await createImage({ ...options(dir, "fast.tar"), compressionLevel: 0 });
  expect(fast.archiveBytes).toBeGreaterThan(small.archiveBytes);
  const image = await openImage(join(dir, "fast.tar"), { temporary: dir });
  expect(image.target.digest).toBe(fast.digest);
  await image.close();
});

test("leaves no temporary files if a source is missing", async () => {
  const dir = folder();
  symlinkSync("nowhere", join(dir, "broken"));
  const entry = { path: "/x", mode: 0o644, content: { kind: "file" as const, source: join(dir, "broken") } };
  const broken = { ...options(dir, "c.tar"), layers: [{ description: "", entries: [entry] }] };
  await expect(createImage(broken)).rejects.toThrow(/ENOENT/);
  expect(() => readFileSync(join(dir, "c.tar"))).toThrow(/ENOENT/);
});
