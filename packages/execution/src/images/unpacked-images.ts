import { createHash, randomUUID } from "node:crypto";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { mkdir, readdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { writeFileAtomic } from "../files/atomic-file.ts";
import { errorCode } from "../files/file-error.ts";
import { isAlive, listProcesses, readStat } from "../process/proc.ts";
import { ImageError } from "./image-error.ts";
import { openImage } from "./image-layout.ts";
import type { ImageLayout } from "./image-layout.ts";
import { hexOf, parseImageConfig, parseImageJson } from "./image-manifest.ts";
import type { ImageConfig } from "./image-manifest.ts";
import { parseImageReference } from "./image-reference.ts";
import { unpackLayer } from "./unpack-layer.ts";

/** An image unpacked into a directory. */
export interface UnpackedImage extends ImageConfig {
  /** Its full name. */
  readonly name: string;
  /** Digest of its manifest: `sha256:` and 64 hexadecimal digits. */
  readonly digest: string;
  /** Directory with its files, for {@link Isolation.root}. Must not be modified. */
  readonly root: string;
}

/** Progress of unpacking: `layer` of `layers`, from 1. */
export interface UnpackProgress {
  readonly layer: number;
  readonly layers: number;
}

/**
 * Images below one directory, each unpacked once even if it has several names. Several processes may use the directory at the same time and
 * see each other's changes immediately.
 */
export interface UnpackedImages {
  /** Finds an image by its full or short name (`alpine`). Reads at most two small files. */
  find(name: string): UnpackedImage | undefined;
  /** All images, by name. */
  list(): readonly UnpackedImage[];
  /**
   * Unpacks an image under a name, which another image loses. Throws an {@link ImageError} if the image is damaged, escapes its directory or
   * is too large, or the name is invalid; no files are left then.
   */
  add(name: string, image: ImageLayout, onProgress?: (progress: UnpackProgress) => void): Promise<UnpackedImage>;
  /** {@link add} for a file or directory that `openImage` accepts. Default name: the one recorded in the image. */
  import(
    file: string,
    options?: {
      readonly name?: string;
      readonly onProgress?: (progress: UnpackProgress) => void;
    },
  ): Promise<UnpackedImage>;
  /**
   * Removes a name, and the files with the last name. False if the name does not exist. Throws an {@link ImageError} `InUse` while a
   * program has the files as its root.
   */
  remove(name: string): Promise<boolean>;
}

/** Options of {@link openUnpackedImages}. */
export interface UnpackedImagesOptions {
  /** Maximum size of an image's archive, and of its files. Default: 8 GiB. */
  readonly maxBytes?: number;
}

const maxEntries = 500_000;
const files = "rootfs";
const partialName = /\.(\d+)-(\d+)\.[-0-9a-f]+\.partial$/;

interface NameRecord {
  readonly name: string;
  readonly digest: string;
}

function parseRecord(text: string): NameRecord | undefined {
  try {
    const { name, digest } = parseImageJson(Buffer.from(text), "a name");
    return typeof name === "string" && typeof digest === "string" ? { name, digest: `sha256:${hexOf(digest)}` } : undefined;
  } catch {
    return undefined;
  }
}

const fullName = (name: string): string => parseImageReference(name).name;

/** Whether a process has files of this directory mounted. */
async function isMounted(folder: string): Promise<boolean> {
  for (const { pid } of await listProcesses()) {
    const mounts = await readFile(`/proc/${pid}/mountinfo`, "utf8").catch(() => "");
    if (mounts.includes(`/${folder}/${files}`)) return true;
  }
  return false;
}

/** Opens the images below `dir`, which is created if missing. */
export async function openUnpackedImages(dir: string, options: UnpackedImagesOptions = {}): Promise<UnpackedImages> {
  const images = new ImageFolder(dir, options.maxBytes ?? 8 * 1024 ** 3);
  await images.open();
  return images;
}

class ImageFolder implements UnpackedImages {
  readonly #dir: string;
  readonly #names: string;
  readonly #maxBytes: number;
  /** Identifies this process in the names of partial files. */
  readonly #self = `${process.pid}-${readStat(process.pid)?.startTime ?? 0}`;

  constructor(dir: string, maxBytes: number) {
    this.#dir = dir;
    this.#names = join(dir, "names");
    this.#maxBytes = maxBytes;
  }

  /** Creates the directories and removes what processes left that died while they unpacked or removed an image. */
  async open(): Promise<void> {
    await mkdir(this.#dir, { recursive: true, mode: 0o711 });
    await mkdir(this.#names, { recursive: true, mode: 0o700 });
    for (const entry of await readdir(this.#dir)) {
      const owner = partialName.exec(entry);
      if (owner !== null && !isAlive(Number(owner[1]), Number(owner[2])))
        await rm(join(this.#dir, entry), { recursive: true, force: true });
    }
  }

  find(name: string): UnpackedImage | undefined {
    try {
      return this.#imageOf(this.#nameFile(fullName(name)));
    } catch (error) {
      if (error instanceof ImageError) return undefined;
      throw error;
    }
  }

  list(): readonly UnpackedImage[] {
    return readdirSync(this.#names)
      .filter((entry) => entry.endsWith(".json"))
      .flatMap((entry) => this.#imageOf(join(this.#names, entry)) ?? [])
      .sort((a, b) => (a.name < b.name ? -1 : 1));
  }

  async add(
    name: string,
    image: ImageLayout,
    onProgress: (progress: UnpackProgress) => void = () => {},
  ): Promise<UnpackedImage> {
    const full = fullName(name);
    const { digest } = image.target;
    const hex = hexOf(digest);
    if (!existsSync(join(this.#dir, hex))) await this.#unpack(hex, image, onProgress);
    await writeFileAtomic(this.#nameFile(full), `${JSON.stringify({ name: full, digest })}\n`, { durable: true });
    const added = this.#imageOf(this.#nameFile(full));
    if (added === undefined) throw new ImageError("Unavailable", `image ${full} was removed while it was being unpacked`);
    return added;
  }

  async import(
    file: string,
    { name, onProgress }: { readonly name?: string; readonly onProgress?: (progress: UnpackProgress) => void } = {},
  ): Promise<UnpackedImage> {
    const temporary = this.#temporaryPath("import");
    await mkdir(temporary, { mode: 0o700 });
    try {
      const image = await openImage(file, { temporary, maxBytes: this.#maxBytes });
      const imageName = name ?? image.name;
      if (imageName === undefined) throw new ImageError("Invalid", `${file} does not record a name; specify one`);
      return await this.add(imageName, image, onProgress);
    } finally {
      await rm(temporary, { recursive: true, force: true });
    }
  }

  async remove(name: string): Promise<boolean> {
    const full = fullName(name);
    const image = this.#imageOf(this.#nameFile(full));
    if (image === undefined) return false;
    const hex = hexOf(image.digest);
    const isShared = this.list().some((other) => other.digest === image.digest && other.name !== full);
    if (!isShared && (await isMounted(hex)))
      throw new ImageError("InUse", `image ${full} is in use by a running program; stop it first`);
    await rm(this.#nameFile(full), { force: true });
    if (isShared) return true;
    const removed = this.#temporaryPath(hex);
    await rename(join(this.#dir, hex), removed);
    await rm(removed, { recursive: true, force: true });
    return true;
  }

  #nameFile(name: string): string {
    return join(this.#names, `${createHash("sha256").update(name).digest("hex")}.json`);
  }

  #temporaryPath(hex: string): string {
    return join(this.#dir, `${hex}.${this.#self}.${randomUUID()}.partial`);
  }

  /** The image that a name file refers to; undefined if the file is missing or damaged. */
  #imageOf(path: string): UnpackedImage | undefined {
    try {
      const record = parseRecord(readFileSync(path, "utf8"));
      if (record === undefined) return undefined;
      const folder = join(this.#dir, hexOf(record.digest));
      const config = parseImageConfig(parseImageJson(readFileSync(join(folder, "config.json")), "config.json"));
      return { ...config, ...record, root: join(folder, files) };
    } catch (error) {
      if (errorCode(error) === "ENOENT") return undefined;
      throw error;
    }
  }

  async #unpack(hex: string, image: ImageLayout, onProgress: (progress: UnpackProgress) => void): Promise<void> {
    const partial = this.#temporaryPath(hex);
    try {
      await mkdir(join(partial, files), { recursive: true, mode: 0o755 });
      const limits = { bytes: this.#maxBytes, entries: maxEntries };
      const { layers } = image.manifest;
      for (const [index, layer] of layers.entries()) {
        onProgress({ layer: index + 1, layers: layers.length });
        await unpackLayer(join(partial, files), image.blob(layer), limits);
      }
      await writeFile(join(partial, "config.json"), await readFile(image.blob(image.manifest.config)), { mode: 0o600 });
      await rename(partial, join(this.#dir, hex));
    } catch (error) {
      await rm(partial, { recursive: true, force: true });
      // A concurrent process unpacked it first.
      if (errorCode(error) !== "ENOTEMPTY" && errorCode(error) !== "EEXIST") throw error;
    }
  }
}
