import type { ContainerdApi } from "./containerd-api.ts";
import { ifThere } from "./containerd-api.ts";
import { ImageError } from "../images/image-error.ts";
import {
  chainIds,
  mostJsonBytes,
  parseDescriptor,
  parseImageConfig,
  parseImageJson,
  requireManifest,
} from "../images/image-manifest.ts";
import type { ImageConfig } from "../images/image-manifest.ts";

/** What containerd knows of an image that programs can be started from. */
export interface ContainerImage extends ImageConfig {
  readonly name: string;
  /** Digest of its manifest, or of the index that it is in. */
  readonly digest: string;
  /** Name of the snapshot with all of its layers; empty for an image without any. */
  readonly chainId: string;
}

async function readJson(api: ContainerdApi, digest: string): Promise<Record<string, unknown>> {
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const { data } of api.content.read({ digest })) {
    size += data.length;
    if (size > mostJsonBytes) throw new ImageError("TooLarge", `${digest} is larger than ${mostJsonBytes} bytes`);
    chunks.push(data);
  }
  return parseImageJson(Buffer.concat(chunks), digest);
}

/** An image by its name; undefined where containerd has none of this name in our namespace. */
export async function findContainerImage(api: ContainerdApi, name: string): Promise<ContainerImage | undefined> {
  const digest = (await ifThere(api.images.get({ name })))?.image?.target?.digest;
  if (digest === undefined) return undefined;
  let manifest = await readJson(api, digest);
  if (Array.isArray(manifest.manifests)) manifest = await readJson(api, requireManifest(manifest).digest);
  const config = parseImageConfig(await readJson(api, parseDescriptor(manifest.config, `image ${name}`).digest));
  return { name, digest, ...config, chainId: chainIds(config.diffIds).at(-1) ?? "" };
}
