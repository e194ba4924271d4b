import { createHash } from "node:crypto";
import { mkdir, readdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { gunzipSync } from "node:zlib";
import { isJsonObject } from "@keelson/api-machinery";
import { type ImageStore, hostImages, normalizeImage, type ReadyImage } from "./image-store.ts";
import { readTar, TarError } from "./tar.ts";
import { unpackLayer } from "./unpack-layer.ts";

/** The images that were unpacked below a folder, by digest, and the machine's own programs. */
export interface ImageFolder extends ImageStore {
  /**
   * Unpacks an OCI archive (a tar of an OCI layout, as `docker save` and `skopeo copy ... oci-archive:` write it), once; gives its
   * digest. Throws a `TarError` where it is damaged, leads out of its folder, or is above `maxBytes`; then nothing is left.
   */
  add(name: string, archive: Uint8Array): Promise<string>;
}

const layout = "rootfs";
const mostEntries = 500_000;

const texts = (value: unknown): readonly string[] => (Array.isArray(value) ? value.map(String) : []);

/** Opens the images below `dir`. */
export async function openImageFolder(dir: string, options: { readonly maxBytes?: number } = {}): Promise<ImageFolder> {
  const { maxBytes = 8 * 1024 ** 3 } = options;
  await mkdir(dir, { recursive: true, mode: 0o711 });
  const namesFile = join(dir, "names.json");
  const names = new Map<string, string>();
  const known: unknown = existsSync(namesFile) ? JSON.parse(readFileSync(namesFile, "utf8")) : {};
  if (isJsonObject(known)) for (const [name, digest] of Object.entries(known)) names.set(name, String(digest));
  const configs = new Map<string, ReadyImage>();
  // What was being unpacked when a process died.
  for (const entry of await readdir(dir))
    if (entry.endsWith(".partial")) await rm(join(dir, entry), { recursive: true, force: true });
  for (const digest of new Set(names.values())) {
    const path = join(dir, digest, "config.json");
    if (existsSync(path)) configs.set(digest, readyImage(join(dir, digest, layout), JSON.parse(readFileSync(path, "utf8"))));
  }

  return {
    find: (image) => hostImages.find(image) ?? configs.get(names.get(normalizeImage(image)) ?? ""),
    list: () => [...hostImages.list(), ...names.keys()],
    async add(name, archive) {
      const blobs = new Map<string, Uint8Array>();
      for (const entry of readTar(archive))
        if (entry.kind === "file") blobs.set(entry.path.replace(/^\.\//, ""), entry.content);
      const json = (path: string): Record<string, unknown> => {
        const bytes = blobs.get(path);
        if (bytes === undefined) throw new TarError(`the archive is no OCI image: it has no ${path}`);
        const value: unknown = JSON.parse(Buffer.from(bytes).toString("utf8"));
        if (!isJsonObject(value)) throw new TarError(`${path} is no JSON object`);
        return value;
      };
      const blob = (descriptor: unknown): Uint8Array => {
        const digest = isJsonObject(descriptor) ? String(descriptor.digest) : "";
        const hex = /^sha256:([0-9a-f]{64})$/.exec(digest)?.[1];
        const bytes = hex === undefined ? undefined : blobs.get(`blobs/sha256/${hex}`);
        if (bytes === undefined) throw new TarError(`the archive has no blob ${digest}`);
        if (createHash("sha256").update(bytes).digest("hex") !== hex) throw new TarError(`blob ${digest} is damaged`);
        return bytes;
      };
      const manifests = json("index.json").manifests;
      const first: unknown = Array.isArray(manifests) ? manifests[0] : undefined;
      const manifest: unknown = JSON.parse(Buffer.from(blob(first)).toString("utf8"));
      if (!isJsonObject(manifest) || !Array.isArray(manifest.layers))
        throw new TarError("the archive's first manifest has no layers");
      const config = Buffer.from(blob(manifest.config)).toString("utf8");
      const digest = createHash("sha256").update(blob(first)).digest("hex");
      if (!configs.has(digest)) {
        const partial = join(dir, `${digest}.partial`);
        try {
          await mkdir(join(partial, layout), { recursive: true, mode: 0o755 });
          const limits = { bytes: maxBytes, entries: mostEntries };
          for (const descriptor of manifest.layers) {
            const bytes = blob(descriptor);
            const isCompressed = bytes[0] === 0x1f && bytes[1] === 0x8b;
            unpackLayer(
              join(partial, layout),
              isCompressed ? gunzipSync(bytes, { maxOutputLength: Math.min(limits.bytes, 2 ** 31 - 1) }) : bytes,
              limits,
            );
          }
          await writeFile(join(partial, "config.json"), config, { mode: 0o600 });
          await rename(partial, join(dir, digest));
        } catch (error) {
          await rm(partial, { recursive: true, force: true });
          throw error;
        }
        configs.set(digest, readyImage(join(dir, digest, layout), JSON.parse(config)));
      }
      names.set(normalizeImage(name), digest);
      await writeFile(`${namesFile}.new`, JSON.stringify(Object.fromEntries(names)), { mode: 0o600 });
      await rename(`${namesFile}.new`, namesFile);
      return digest;
    },
  };
}

function readyImage(root: string, value: unknown): ReadyImage {
  const config = isJsonObject(value) && isJsonObject(value.config) ? value.config : {};
  const env = texts(config.Env).map((pair): [string, string] => {
    const equals = pair.indexOf("=");
    return equals < 1 ? [pair, ""] : [pair.slice(0, equals), pair.slice(equals + 1)];
  });
  const { WorkingDir } = config;
  return {
    root,
    entrypoint: texts(config.Entrypoint),
    command: texts(config.Cmd),
    env: Object.fromEntries(env.filter(([name]) => name !== "")),
    ...(typeof WorkingDir === "string" && WorkingDir.startsWith("/") && WorkingDir !== "/" && { workingDir: WorkingDir }),
  };
}

/** Reads an archive's file for {@link ImageFolder.add}. */
export const readArchive = (path: string): Promise<Uint8Array> => readFile(path);
