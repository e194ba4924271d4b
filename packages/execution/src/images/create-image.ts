import { createHash } from "node:crypto";
import { createReadStream, createWriteStream } from "node:fs";
import { mkdir, mkdtemp, rename, rm, stat, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { createGzip } from "node:zlib";
import { Header, Pax } from "tar";
import { architecture, type Descriptor } from "./image-manifest.ts";

/** A file, directory or symbolic link of an image. Owned by root; its time is the epoch. */
export interface ImageEntry {
  /** Absolute path in the image. */
  readonly path: string;
  /** Mode bits, such as 0o755. */
  readonly mode: number;
  readonly content:
    | { readonly kind: "file"; readonly source: string }
    | { readonly kind: "text"; readonly text: string }
    | { readonly kind: "folder" }
    | { readonly kind: "link"; readonly target: string };
}

/** A layer of an image: entries in any order. Missing parent directories are added. */
export interface ImageLayerContent {
  /** How the layer was created, for `docker history`. */
  readonly description: string;
  readonly entries: readonly ImageEntry[];
}

/** Options of {@link createImage}. */
export interface CreateImageOptions {
  /** The OCI archive to write. Replaced if it exists. */
  readonly file: string;
  /** Name of the image in the archive: `example.org/tool:1`. */
  readonly name: string;
  readonly layers: readonly ImageLayerContent[];
  /** Defaults for programs (OCI image specification, config.md): `Entrypoint`, `User`, `Env` ... */
  readonly config: Readonly<Record<string, unknown>>;
  /** Time of creation. Default: the epoch, so that equal contents give equal archives. */
  readonly createdMs?: number;
  /** Level of the layers' gzip compression, 0 to 9. Default 9: the smallest archive. */
  readonly compressionLevel?: number;
}

/** An image that was written. */
export interface CreatedImage {
  /** Digest of its manifest. */
  readonly digest: string;
  /** Size of the archive. */
  readonly archiveBytes: number;
  /** Compressed size of each layer, lowest first. */
  readonly layerBytes: readonly number[];
}

const mediaTypes = {
  manifest: "application/vnd.oci.image.manifest.v1+json",
  config: "application/vnd.oci.image.config.v1+json",
  layer: "application/vnd.oci.image.layer.v1.tar+gzip",
} as const;

/**
 * Writes an image for this machine's architecture as an OCI archive. Needs neither a daemon nor root. Equal contents give equal bytes
 * with the same version of Node.js.
 */
export async function createImage(options: CreateImageOptions): Promise<CreatedImage> {
  const { file, name, createdMs = 0, compressionLevel = 9 } = options;
  await mkdir(dirname(file), { recursive: true });
  const dir = await mkdtemp(`${file}.parts-`);
  try {
    const layers: Layer[] = [];
    for (const layer of options.layers) layers.push(await writeLayer(dir, layer, compressionLevel));
    const created = new Date(createdMs).toISOString().replace(/\.\d+Z$/, "Z");
    const config = await writeJson(dir, mediaTypes.config, {
      created,
      os: "linux",
      architecture,
      config: options.config,
      rootfs: { type: "layers", diff_ids: layers.map(({ diffId }) => diffId) },
      history: options.layers.map(({ description }) => ({ created, created_by: description })),
    });
    const descriptors = layers.map(({ descriptor }) => descriptor);
    const manifest = await writeJson(dir, mediaTypes.manifest, {
      schemaVersion: 2,
      mediaType: mediaTypes.manifest,
      config,
      layers: descriptors,
    });
    const annotations = { "org.opencontainers.image.ref.name": name, "io.containerd.image.name": name };
    const index = { schemaVersion: 2, manifests: [{ ...manifest, annotations }] };
    const blobs = [...new Map([...descriptors, config, manifest].map((blob) => [blob.digest, blob])).values()];
    const draft = join(dir, "archive.tar");
    await writeTar(draft, [
      { path: "/oci-layout", mode: 0o644, content: { kind: "text", text: JSON.stringify({ imageLayoutVersion: "1.0.0" }) } },
      { path: "/index.json", mode: 0o644, content: { kind: "text", text: JSON.stringify(index) } },
      ...blobs.map(({ digest }): ImageEntry => {
        const hex = digest.slice("sha256:".length);
        return { path: `/blobs/sha256/${hex}`, mode: 0o644, content: { kind: "file", source: join(dir, hex) } };
      }),
    ]);
    await rename(draft, file);
    const { size } = await stat(file);
    return { digest: manifest.digest, archiveBytes: size, layerBytes: descriptors.map((blob) => blob.size) };
  } finally {
    await rm(dir, { recursive: true, force: true });
  }
}

interface Layer {
  readonly descriptor: Descriptor;
  /** Digest of the uncompressed layer. */
  readonly diffId: string;
}

async function writeLayer(dir: string, { entries }: ImageLayerContent, level: number): Promise<Layer> {
  const tar = join(dir, "layer.tar");
  await writeTar(tar, entries);
  const diffId = await digestOf(tar);
  const draft = join(dir, "layer.tar.gz");
  await pipeline(createReadStream(tar), createGzip({ level }), createWriteStream(draft));
  return { descriptor: await keepBlob(dir, draft, mediaTypes.layer), diffId };
}

async function writeJson(dir: string, mediaType: string, content: unknown): Promise<Descriptor> {
  const draft = join(dir, "document.json");
  await writeFile(draft, JSON.stringify(content));
  return keepBlob(dir, draft, mediaType);
}

/** Renames a file to its digest. */
async function keepBlob(dir: string, path: string, mediaType: string): Promise<Descriptor> {
  const [digest, { size }] = [await digestOf(path), await stat(path)];
  await rename(path, join(dir, digest.slice("sha256:".length)));
  return { mediaType, digest, size };
}

async function digestOf(path: string): Promise<string> {
  const hash = createHash("sha256");
  await pipeline(createReadStream(path), hash);
  return `sha256:${hash.digest("hex")}`;
}

const blockBytes = 512;

/** Writes a tar archive with the entries and their parent directories, sorted by path. */
async function writeTar(file: string, entries: readonly ImageEntry[]): Promise<void> {
  await pipeline(Readable.from(tarChunks(withParents(entries)), { objectMode: true }), createWriteStream(file));
}

function withParents(entries: readonly ImageEntry[]): readonly ImageEntry[] {
  const byPath = new Map<string, ImageEntry>();
  for (const entry of entries) {
    for (let parent = dirname(entry.path); parent !== "/"; parent = dirname(parent)) {
      if (!byPath.has(parent)) byPath.set(parent, { path: parent, mode: 0o755, content: { kind: "folder" } });
    }
  }
  for (const entry of entries) byPath.set(entry.path, entry);
  return [...byPath.values()].sort((a, b) => (a.path < b.path ? -1 : 1));
}

async function* tarChunks(entries: readonly ImageEntry[]): AsyncGenerator<Buffer> {
  for (const { path, mode, content } of entries) {
    const isFolder = content.kind === "folder";
    const fields = {
      path: path.slice(1) + (isFolder ? "/" : ""),
      type: isFolder ? ("Directory" as const) : content.kind === "link" ? ("SymbolicLink" as const) : ("File" as const),
      linkpath: content.kind === "link" ? content.target : "",
      mode,
      uid: 0,
      gid: 0,
      mtime: new Date(0),
      size: await sizeOf(content),
    };
    const block = Buffer.alloc(blockBytes);
    // True if a field does not fit.
    if (new Header(fields).encode(block, 0))
      yield new Pax({ path: fields.path, linkpath: fields.linkpath || undefined }).encode();
    yield block;
    if (content.kind === "text") yield Buffer.from(content.text);
    if (content.kind === "file") for await (const chunk of createReadStream(content.source)) yield chunk as Buffer;
    yield Buffer.alloc((blockBytes - (fields.size % blockBytes)) % blockBytes);
  }
  yield Buffer.alloc(2 * blockBytes);
}

async function sizeOf(content: ImageEntry["content"]): Promise<number> {
  if (content.kind === "text") return Buffer.byteLength(content.text);
  return content.kind === "file" ? (await stat(content.source)).size : 0;
}
