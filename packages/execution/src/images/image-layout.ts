import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { mkdtemp, readFile, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { extract } from "tar";
import { errorCode } from "../files/file-error.ts";
import { ImageError } from "./image-error.ts";
import { hexOf, mostJsonBytes, parseImageConfig, parseImageJson, parseManifest, requireManifest } from "./image-manifest.ts";
import type { Descriptor, ImageConfig, ImageManifest } from "./image-manifest.ts";

/** An image in a folder of the OCI layout (OCI image specification, image-layout.md), every part as its digest says. */
export interface LaidOutImage {
  /** Descriptor of its manifest. */
  readonly target: Descriptor;
  readonly manifest: ImageManifest;
  readonly config: ImageConfig;
  /** The name that the layout gives it (`org.opencontainers.image.ref.name`), where it gives one. */
  readonly name?: string;
  /** Path of the file with a part. */
  blob(descriptor: Descriptor): string;
  /** Removes what was made to read it. */
  close(): Promise<void>;
}

/** The most that an image may have in all, unless it is told otherwise. */
export const defaultMaxImageBytes = 8 * 1024 ** 3;

const blobPath = /^(?:\.\/)?(?:blobs(?:\/sha256(?:\/[0-9a-f]{64})?)?\/?|index\.json|oci-layout)$/;

/** Unpacks the parts of an image from an archive. Nothing else of the archive is unpacked, whatever it says. */
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
  if (isTooLarge) throw new ImageError("TooLarge", `the image in ${file} is larger than ${maxBytes} bytes`);
}

async function readSmall(path: string, what: string): Promise<Uint8Array> {
  try {
    if ((await stat(path)).size > mostJsonBytes)
      throw new ImageError("TooLarge", `${what} is larger than ${mostJsonBytes} bytes`);
    return await readFile(path);
  } catch (error) {
    if (errorCode(error) === "ENOENT") throw new ImageError("Invalid", `this is no image in the OCI layout: it has no ${what}`);
    throw error;
  }
}

/** Throws where a file is not the part that a descriptor points to. */
export async function verifyBlob(path: string, { digest, size }: Descriptor): Promise<void> {
  const hash = createHash("sha256");
  let read = 0;
  try {
    for await (const chunk of createReadStream(path)) {
      read += (chunk as Buffer).length;
      hash.update(chunk as Buffer);
    }
  } catch (error) {
    if (errorCode(error) === "ENOENT") throw new ImageError("Invalid", `the image is not whole: ${digest} is missing`);
    throw error;
  }
  if (read !== size || hash.digest("hex") !== hexOf(digest)) {
    throw new ImageError("Invalid", `the image is damaged: ${digest} is not what its digest and size say`);
  }
}

/**
 * Opens an image: a folder of the OCI layout, or a tar archive of one (also compressed with gzip) as `docker save` of Docker 25
 * or newer, `skopeo copy ... oci-archive:FILE`, `podman save --format oci-archive` and `ctr image export` write them. Of several images
 * that for this machine is taken.
 *
 * **Errors**: an {@link ImageError} where it is damaged, incomplete, larger than `maxBytes`, or for other processors only.
 */
export async function openImage(
  path: string,
  options: {
    /** Folder for what has to be unpacked meanwhile. */
    readonly temporary: string;
    /** Default: 8 GiB. */
    readonly maxBytes?: number;
  },
): Promise<LaidOutImage> {
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

async function readLayout(dir: string, maxBytes: number): Promise<Omit<LaidOutImage, "close">> {
  const blob = ({ digest }: Descriptor): string => join(dir, "blobs", "sha256", hexOf(digest));
  const json = async (descriptor: Descriptor): Promise<Record<string, unknown>> => {
    await verifyBlob(blob(descriptor), descriptor);
    return parseImageJson(await readSmall(blob(descriptor), descriptor.digest), descriptor.digest);
  };
  const index = parseImageJson(await readSmall(join(dir, "index.json"), "index.json"), "index.json");
  let target = requireManifest(index);
  let found = await json(target);
  // Tools put an index with one manifest a processor into the layout's own.
  if (Array.isArray(found.manifests)) {
    target = requireManifest(found);
    found = await json(target);
  }
  const manifest = parseManifest(found);
  const total = manifest.layers.reduce((sum, { size }) => sum + size, manifest.config.size);
  if (total > maxBytes) throw new ImageError("TooLarge", `the image has ${total} bytes, more than ${maxBytes}`);
  for (const layer of manifest.layers) await verifyBlob(blob(layer), layer);
  const name = nameOf(index, target);
  return { target, manifest, config: parseImageConfig(await json(manifest.config)), blob, ...(name !== undefined && { name }) };
}

/** The full name that a tool noted down, else the short one of the standard, where it is a full one. */
function nameOf(index: Record<string, unknown>, target: Descriptor): string | undefined {
  const all = Array.isArray(index.manifests) ? (index.manifests as readonly Record<string, unknown>[]) : [];
  const own = all.find(({ digest }) => digest === target.digest) ?? all[0];
  const annotations = own?.annotations;
  if (typeof annotations !== "object" || annotations === null) return undefined;
  const texts = annotations as Readonly<Record<string, unknown>>;
  const name = texts["io.containerd.image.name"] ?? texts["org.opencontainers.image.ref.name"];
  return typeof name === "string" && name.includes("/") ? name : undefined;
}
