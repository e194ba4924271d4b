import type { ContainerdApi } from "./containerd-api.ts";
import { ignoreNotFound } from "./containerd-api.ts";
import { ImageError } from "../images/image-error.ts";
import {
  chainIds,
  maxJsonBytes,
  parseDescriptor,
  parseImageConfig,
  parseImageJson,
  requireManifest,
} from "../images/image-manifest.ts";
import type { ImageConfig } from "../images/image-manifest.ts";

/** An image from which containerd can start programs. */
export interface ContainerImage extends ImageConfig {
  readonly name: string;
  /** Digest of its manifest, or of the index that contains it. */
  readonly digest: string;
  /** Name of the snapshot with all of its layers; empty for an image without layers. */
  readonly chainId: string;
}

async function readJson(api: ContainerdApi, digest: string): Promise<Record<string, unknown>> {
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const { data } of api.content.read({ digest })) {
    size += data.length;
    if (size > maxJsonBytes) throw new ImageError("TooLarge", `${digest} exceeds ${maxJsonBytes} bytes`);
    chunks.push(data);
  }
  return parseImageJson(Buffer.concat(chunks), digest);
}

/** Finds an image by name; undefined if our namespace has none of this name. */
export async function findContainerImage(api: ContainerdApi, name: string): Promise<ContainerImage | undefined> {
  const digest = (await ignoreNotFound(api.images.get({ name })))?.image?.target?.digest;
  if (digest === undefined) return undefined;
  let manifest = await readJson(api, digest);
  if (Array.isArray(manifest.manifests)) manifest = await readJson(api, requireManifest(manifest).digest);
  const config = parseImageConfig(await readJson(api, parseDescriptor(manifest.config, `image ${name}`).digest));
  return { name, digest, ...config, chainId: chainIds(config.diffIds).at(-1) ?? "" };
}
