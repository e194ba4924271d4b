import { createReadStream } from "node:fs";
import { Code } from "@connectrpc/connect";
import type { Descriptor } from "../images/image-manifest.ts";
import { chainIds } from "../images/image-manifest.ts";
import type { ImageLayout } from "../images/image-layout.ts";
import { ImageError } from "../images/image-error.ts";
import { createContainerdApi, failedWith, ignoreNotFound } from "./containerd-api.ts";
import type { ContainerdApi } from "./containerd-api.ts";
import { findContainerImage } from "./containerd-images.ts";
import type { ContainerImage } from "./containerd-images.ts";
import { defaultContainerdSocket } from "./containerd-api.ts";
import { defaultNamespace, defaultSnapshotter, openContainerd } from "./containerd-driver.ts";
import type { ContainerdOptions } from "./containerd-driver.ts";

/** Progress of an image import. */
export interface ImportProgress {
  /** `store`: copying the layer. `unpack`: extracting its files. */
  readonly phase: "store" | "unpack";
  /** The current layer, from 1 to `layers`. */
  readonly layer: number;
  readonly layers: number;
}

/** The images in containerd's namespace for us. */
export interface ContainerdImages {
  /**
   * Imports and unpacks an image under a name. Replaces an existing image of that name; layers that containerd already has are not
   * copied again.
   */
  add(name: string, image: ImageLayout, onProgress?: (progress: ImportProgress) => void): Promise<ContainerImage>;
  find(name: string): Promise<ContainerImage | undefined>;
  list(): Promise<readonly { readonly name: string; readonly digest: string }[]>;
  /** Removes a name, and the content that no other image or program uses. False if the name does not exist. */
  remove(name: string): Promise<boolean>;
}

/** Actions of a write (containerd, api/services/content/v1). */
const writeActions = { write: 1, commit: 2 } as const;

/** Bytes per message; containerd accepts up to 16 MiB. */
const chunkBytes = 1024 * 1024;

/** How long the content of an unfinished import is protected from garbage collection. */
const leaseMs = 24 * 3600 * 1000;

/** Opens containerd's images. Throws `Unsupported` if containerd does not respond. */
export async function openContainerdImages(
  options: ContainerdOptions & { readonly random: () => number; readonly now: () => number },
): Promise<ContainerdImages> {
  const { socket = defaultContainerdSocket, namespace = defaultNamespace, snapshotter = defaultSnapshotter } = options;
  const api = await openContainerd(options);
  return {
    find: (name) => findContainerImage(api, name),
    async list() {
      const { images } = await api.images.list({});
      return images.map(({ name, target }) => ({ name, digest: target?.digest ?? "" }));
    },
    remove: async (name) => (await ignoreNotFound(api.images.delete({ name, sync: true }))) !== undefined,
    async add(name, image, onProgress = () => {}) {
      const id = `keelson-${Math.floor(options.random() * 2 ** 48).toString(36)}`;
      const expires = new Date(options.now() + leaseMs).toISOString();
      await api.leases.create({ id, labels: { "containerd.io/gc.expire": expires } });
      try {
        await importImage(createContainerdApi(socket, namespace, id), { id, snapshotter, name, image, onProgress });
      } finally {
        await ignoreNotFound(api.leases.delete({ id, sync: true }));
      }
      const found = await findContainerImage(api, name);
      if (found === undefined) throw new ImageError("Unavailable", `image ${name} was removed during its import`);
      return found;
    },
  };
}

interface ImportRequest {
  /** Id of the lease, which prefixes temporary names. */
  readonly id: string;
  readonly snapshotter: string;
  readonly name: string;
  readonly image: ImageLayout;
  readonly onProgress: (progress: ImportProgress) => void;
}

async function importImage(api: ContainerdApi, request: ImportRequest): Promise<void> {
  const { image, name, snapshotter, onProgress } = request;
  const { layers, config } = image.manifest;
  const chain = chainIds(image.config.diffIds);
  if (chain.length !== layers.length)
    throw new ImageError("Invalid", "the image's configuration does not list the layers of its manifest");
  for (const [index, layer] of layers.entries()) {
    onProgress({ phase: "store", layer: index + 1, layers: layers.length });
    await store(api, request, layer, {});
  }
  for (const [index, layer] of layers.entries()) {
    onProgress({ phase: "unpack", layer: index + 1, layers: layers.length });
    await unpack(api, request, layer, chain[index - 1] ?? "", chain[index] ?? "", image.config.diffIds[index] ?? "");
  }
  const top = chain.at(-1);
  // Garbage collection keeps an image's manifest, and for each blob what its labels refer to.
  await store(api, request, config, top === undefined ? {} : { [`containerd.io/gc.ref.snapshot.${snapshotter}`]: top });
  await store(api, request, image.target, {
    "containerd.io/gc.ref.content.config": config.digest,
    ...Object.fromEntries(layers.map(({ digest }, index) => [`containerd.io/gc.ref.content.l.${index}`, digest])),
  });
  const { mediaType, digest, size } = image.target;
  const record = { name, target: { mediaType, digest, size: BigInt(size) } };
  try {
    await api.images.create({ image: record });
  } catch (error) {
    if (!failedWith(error, Code.AlreadyExists)) throw error;
    await api.images.update({ image: record });
  }
}

async function store(
  api: ContainerdApi,
  { id, image }: ImportRequest,
  descriptor: Descriptor,
  labels: Readonly<Record<string, string>>,
): Promise<void> {
  const { digest, size } = descriptor;
  const shared = { ref: `${id}-${digest}`, total: BigInt(size), expected: digest };
  async function* messages() {
    let offset = 0n;
    for await (const data of createReadStream(image.blob(descriptor), { highWaterMark: chunkBytes })) {
      yield { ...shared, action: writeActions.write, offset, data: data as Buffer };
      offset += BigInt((data as Buffer).length);
    }
    yield { ...shared, action: writeActions.commit, offset, labels: { ...labels } };
  }
  try {
    for await (const _ of api.content.write(messages()));
  } catch (error) {
    // Images share layers, and the image may exist already.
    if (!failedWith(error, Code.AlreadyExists)) throw error;
  }
}

/** Creates the snapshot `chainId`: this layer on top of its parent. */
async function unpack(
  api: ContainerdApi,
  { id, snapshotter }: ImportRequest,
  { mediaType, digest, size }: Descriptor,
  parent: string,
  chainId: string,
  diffId: string,
): Promise<void> {
  if ((await ignoreNotFound(api.snapshots.stat({ snapshotter, key: chainId }))) !== undefined) return;
  const key = `${id}-${chainId}`;
  const { mounts } = await api.snapshots.prepare({ snapshotter, key, parent });
  const { applied } = await api.diff.apply({ diff: { mediaType, digest, size: BigInt(size) }, mounts });
  if (applied?.digest !== diffId) {
    throw new ImageError("Invalid", `the image is damaged: layer ${digest} does not match its configuration`);
  }
  try {
    await api.snapshots.commit({ snapshotter, name: chainId, key });
  } catch (error) {
    // A concurrent import created it first.
    if (!failedWith(error, Code.AlreadyExists)) throw error;
    await api.snapshots.remove({ snapshotter, key });
  }
}
