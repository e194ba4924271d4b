import { createHash } from "node:crypto";
import { ImageError } from "./image-error.ts";

/** Refers to a blob of an image (OCI image specification, descriptor.md). */
export interface Descriptor {
  readonly mediaType: string;
  /** `sha256:` and 64 hexadecimal digits. */
  readonly digest: string;
  readonly size: number;
}

/** An image's configuration and its layers, lowest first. */
export interface ImageManifest {
  readonly config: Descriptor;
  readonly layers: readonly Descriptor[];
}

/** An image's defaults for its programs (OCI image specification, config.md). */
export interface ImageConfig {
  /** Digests of the uncompressed layers. */
  readonly diffIds: readonly string[];
  readonly entrypoint: readonly string[];
  readonly command: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly user?: string;
  readonly workingDir?: string;
}

const isRecord = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value);

const texts = (value: unknown): readonly string[] => (Array.isArray(value) ? value.map(String) : []);

/** Maximum size of a manifest or a configuration. */
export const maxJsonBytes = 4 * 1024 * 1024;

/** The hexadecimal digits of a digest. Throws an {@link ImageError} for any other text, because digests become file names. */
export function hexOf(digest: string): string {
  const hex = /^sha256:([0-9a-f]{64})$/.exec(digest)?.[1];
  if (hex === undefined) throw new ImageError("Invalid", `${JSON.stringify(digest)} is not a valid sha256 digest`);
  return hex;
}

/** Parses a JSON blob of an image. Throws an {@link ImageError}. */
export function parseImageJson(bytes: Uint8Array, what: string): Record<string, unknown> {
  let value: unknown;
  try {
    value = JSON.parse(Buffer.from(bytes).toString("utf8"));
  } catch {
    throw new ImageError("Invalid", `${what} is damaged: not valid JSON`);
  }
  if (!isRecord(value)) throw new ImageError("Invalid", `${what} is damaged: not a JSON object`);
  return value;
}

/** Parses a descriptor. Throws an {@link ImageError} that names it (`what`). */
export function parseDescriptor(value: unknown, what: string): Descriptor {
  const { mediaType = "", digest, size } = isRecord(value) ? value : {};
  if (typeof mediaType !== "string" || typeof digest !== "string" || !Number.isSafeInteger(size) || Number(size) < 0) {
    throw new ImageError("Invalid", `${what} is damaged: it must have a mediaType, a digest and a size`);
  }
  hexOf(digest);
  return { mediaType, digest, size: Number(size) };
}

/** This machine's architecture as images name it (Go's GOARCH). */
export const architecture = process.arch === "x64" ? "amd64" : process.arch;

/** Chooses the manifest for this machine in an index; falls back to the first one without a platform. */
export function chooseManifest(manifests: unknown): Descriptor | undefined {
  const all = Array.isArray(manifests) ? manifests.filter(isRecord) : [];
  const fits = ({ platform }: Record<string, unknown>): boolean =>
    isRecord(platform) && platform.os === "linux" && platform.architecture === architecture;
  const chosen = all.find(fits) ?? all.find(({ platform }) => platform === undefined);
  return chosen === undefined ? undefined : parseDescriptor(chosen, "the index");
}

/** {@link chooseManifest}, which throws an {@link ImageError} if there is none. */
export function requireManifest(index: Record<string, unknown>): Descriptor {
  const chosen = chooseManifest(index.manifests);
  if (chosen === undefined) throw new ImageError("NotForThisMachine", `the image has no manifest for linux/${architecture}`);
  return chosen;
}

/** Maximum number of layers: the kernel's limit for overlayfs. */
const maxLayers = 500;

/** Parses a manifest (OCI image specification, manifest.md). Throws an {@link ImageError}. */
export function parseManifest(manifest: Record<string, unknown>): ImageManifest {
  const { layers } = manifest;
  if (!Array.isArray(layers)) throw new ImageError("Invalid", "the manifest has no layers");
  if (layers.length > maxLayers)
    throw new ImageError("TooLarge", `the image has ${layers.length} layers; the limit is ${maxLayers}`);
  return {
    config: parseDescriptor(manifest.config, "the manifest's config"),
    layers: layers.map((layer, index) => parseDescriptor(layer, `layer ${index}`)),
  };
}

/** Parses a configuration and ignores invalid settings. */
export function parseImageConfig(config: Record<string, unknown>): ImageConfig {
  const settings = isRecord(config.config) ? config.config : {};
  const rootfs = isRecord(config.rootfs) ? config.rootfs : {};
  const env = texts(settings.Env).flatMap((pair): readonly (readonly [string, string])[] => {
    const equals = pair.indexOf("=");
    return equals < 1 ? [] : [[pair.slice(0, equals), pair.slice(equals + 1)]];
  });
  const { User, WorkingDir } = settings;
  return {
    diffIds: texts(rootfs.diff_ids),
    entrypoint: texts(settings.Entrypoint),
    command: texts(settings.Cmd),
    env: Object.fromEntries(env),
    ...(typeof User === "string" && User !== "" && { user: User }),
    ...(typeof WorkingDir === "string" && WorkingDir.startsWith("/") && { workingDir: WorkingDir }),
  };
}

/** The chain id of each layer, lowest first (OCI image specification, "Layer ChainID"). */
export function chainIds(diffIds: readonly string[]): readonly string[] {
  const chain: string[] = [];
  for (const diffId of diffIds) {
    const below = chain.at(-1);
    chain.push(below === undefined ? diffId : `sha256:${createHash("sha256").update(`${below} ${diffId}`).digest("hex")}`);
  }
  return chain;
}
