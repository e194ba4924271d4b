import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { mkdtemp, readFile, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { extract } from "tar";
import { errorCode } from "../files/file-error.ts";
import { ImageError } from "./image-error.ts";
import { hexOf, maxJsonBytes, parseImageConfig, parseImageJson, parseManifest, requireManifest } from "./image-manifest.ts";
import type { Descriptor, ImageConfig, ImageManifest } from "./image-manifest.ts";

/** An image in an OCI layout (OCI image specification, image-layout.md) whose blobs match their digests. */
export interface ImageLayout {
  /** Descriptor of its manifest. */
  readonly target: Descriptor;
  readonly manifest: ImageManifest;
  readonly config: ImageConfig;
  /** The image's name in the layout (`org.opencontainers.image.ref.name`), if any. */
  readonly name?: string;
  /** Path of a blob's file. */
  blob(descriptor: Descriptor): string;
  /** Removes temporary files. */
  close(): Promise<void>;
}

/** Default maximum size of an image. */
export const defaultMaxImageBytes = 8 * 1024 ** 3;

const blobPath = /^(?:\.\/)?(?:blobs(?:\/sha256(?:\/[0-9a-f]{64})?)?\/?|index\.json|oci-layout)$/;

/** Unpacks an image's blobs from an archive and ignores every other entry. */
async function unpackArchive(file: string, target: string, maxBytes: number): Promise<void> {
  let bytes = 0;
  let isTooLarge = false;
  try {
    await extract({
      file,
      cwd: target,
      strict: true,
      preserveOwner: false,
      filter: (path, entry) => {
        const isWanted =
          blobPath.test(path) && "type" in entry && /^(?:File|OldFile|ContiguousFile|Directory)$/.test(entry.type);
        if (isWanted) bytes += entry.size ?? 0;
        isTooLarge ||= bytes > maxBytes;
        return isWanted && !isTooLarge;
      },
    });
  } catch (error) {
    throw new ImageError(
      "Invalid",
      `the archive ${file} is damaged: ${error instanceof Error ? error.message : String(error)}`,
      {
        cause: error,
      },
    );
  }
  if (isTooLarge) throw new ImageError("TooLarge", `the image in ${file} exceeds ${maxBytes} bytes`);
}

async function readSmall(path: string, what: string): Promise<Uint8Array> {
  try {
    if ((await stat(path)).size > maxJsonBytes) throw new ImageError("TooLarge", `${what} exceeds ${maxJsonBytes} bytes`);
    return await readFile(path);
  } catch (error) {
    if (errorCode(error) === "ENOENT") throw new ImageError("Invalid", `not an OCI image layout: it has no ${what}`);
    throw error;
  }
}

/** Throws if a file does not match its descriptor. */
async function verifyBlob(path: string, { digest, size }: Descriptor): Promise<void> {
  const hash = createHash("sha256");
  let read = 0;
  try {
    for await (const chunk of createReadStream(path)) {
      read += (chunk as Buffer).length;
      hash.update(chunk as Buffer);
    }
  } catch (error) {
    if (errorCode(error) === "ENOENT") throw new ImageError("Invalid", `the image is incomplete: ${digest} is missing`);
    throw error;
  }
  if (read !== size || hash.digest("hex") !== hexOf(digest)) {
    throw new ImageError("Invalid", `the image is damaged: ${digest} does not match its digest and size`);
  }
}

/**
 * Opens an image: an OCI layout directory, or a tar archive of one (optionally gzipped) as written by `docker save` of Docker 25 or newer,
 * `skopeo copy ... oci-archive:FILE`, `podman save --format oci-archive` and `ctr image export`. Selects the image for this machine's
 * architecture.
 *
 * **Errors**: an {@link ImageError} if it is damaged, incomplete, larger than `maxBytes`, or built for other architectures only.
 */
export async function openImage(
  path: string,
  options: {
    /** Directory for temporary files. */
    readonly temporary: string;
    /** Default: 8 GiB. */
    readonly maxBytes?: number;
  },
): Promise<ImageLayout> {
  const { maxBytes = defaultMaxImageBytes } = options;
  const isFolder = (await stat(path)).isDirectory();
  const dir = isFolder ? path : await mkdtemp(join(options.temporary, "image-"));
  const close = (): Promise<void> => (isFolder ? Promise.resolve() : rm(dir, { recursive: true, force: true }));
  try {
    if (!isFolder) await unpackArchive(path, dir, maxBytes);
    return { ...(await readLayout(dir, maxBytes)), close };
  } catch (error) {
    await close();
    throw error;
  }
}

async function readLayout(dir: string, maxBytes: number): Promise<Omit<ImageLayout, "close">> {
  const blob = ({ digest }: Descriptor): string => join(dir, "blobs", "sha256", hexOf(digest));
  const json = async (descriptor: Descriptor): Promise<Record<string, unknown>> => {
    await verifyBlob(blob(descriptor), descriptor);
    return parseImageJson(await readSmall(blob(descriptor), descriptor.digest), descriptor.digest);
  };
  const index = parseImageJson(await readSmall(join(dir, "index.json"), "index.json"), "index.json");
  let target = requireManifest(index);
  let found = await json(target);
  // Some tools nest an index with one manifest per architecture in the layout's index.
  if (Array.isArray(found.manifests)) {
    target = requireManifest(found);
    found = await json(target);
  }
  const manifest = parseManifest(found);
  const total = manifest.layers.reduce((sum, { size }) => sum + size, manifest.config.size);
  if (total > maxBytes) throw new ImageError("TooLarge", `the image has ${total} bytes; the limit is ${maxBytes}`);
  for (const layer of manifest.layers) await verifyBlob(blob(layer), layer);
  const name = nameOf(index, target);
  return { target, manifest, config: parseImageConfig(await json(manifest.config)), blob, ...(name !== undefined && { name }) };
}

/** The full name that containerd's tools record, or else the standard annotation if it is a full name. */
function nameOf(index: Record<string, unknown>, target: Descriptor): string | undefined {
  const all = Array.isArray(index.manifests) ? (index.manifests as readonly Record<string, unknown>[]) : [];
  const own = all.find(({ digest }) => digest === target.digest) ?? all[0];
  const annotations = own?.annotations;
  if (typeof annotations !== "object" || annotations === null) return undefined;
  const texts = annotations as Readonly<Record<string, unknown>>;
  const name = texts["io.containerd.image.name"] ?? texts["org.opencontainers.image.ref.name"];
  return typeof name === "string" && name.includes("/") ? name : undefined;
}
