import { createReadStream } from "node:fs";
import { Code } from "@connectrpc/connect";
import type { Descriptor } from "../images/image-manifest.ts";
import { chainIds } from "../images/image-manifest.ts";
import type { LaidOutImage } from "../images/image-layout.ts";
import { ImageError } from "../images/image-error.ts";
import { createContainerdApi, failedWith, ifThere } from "./containerd-api.ts";
import type { ContainerdApi } from "./containerd-api.ts";
import { findContainerImage } from "./containerd-images.ts";
import type { ContainerImage } from "./containerd-images.ts";
import { defaultContainerdSocket } from "./containerd-api.ts";
import { defaultNamespace, defaultSnapshotter, openContainerd } from "./containerd-driver.ts";
import type { ContainerdOptions } from "./containerd-driver.ts";

/** How far the import of an image is. */
export interface ImportProgress {
  /** `store`: the layer's file is taken over. `unpack`: its files are made. */
  readonly phase: "store" | "unpack";
  /** Which of `layers`, from 1. */
  readonly layer: number;
  readonly layers: number;
}

/** The images of a containerd, in our namespace. */
export interface ContainerdImages {
  /**
   * Takes over an image under a name, and unpacks it for programs to start from. One that is there is replaced; what is there of
   * its layers is not taken over again.
   */
  add(name: string, image: LaidOutImage, onProgress?: (progress: ImportProgress) => void): Promise<ContainerImage>;
  find(name: string): Promise<ContainerImage | undefined>;
  list(): Promise<readonly { readonly name: string; readonly digest: string }[]>;
  /** Forgets a name; what no other image or program needs of it goes. False where there is none. */
  remove(name: string): Promise<boolean>;
}

/** Actions of a write (containerd, api/services/content/v1). */
const writeActions = { write: 1, commit: 2 } as const;

/** Bytes in one message; containerd takes up to 16 MiB. */
const chunkBytes = 1024 * 1024;

/** How long an import may take before what it has made so far may be collected. */
const leaseMs = 24 * 3600 * 1000;

/** Opens the images of a containerd. Throws `Unsupported` where nothing answers. */
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
    remove: async (name) => (await ifThere(api.images.delete({ name, sync: true }))) !== undefined,
    async add(name, image, onProgress = () => {}) {
      const id = `keelson-${Math.floor(options.random() * 2 ** 48).toString(36)}`;
      const expires = new Date(options.now() + leaseMs).toISOString();
      await api.leases.create({ id, labels: { "containerd.io/gc.expire": expires } });
      try {
        await importImage(createContainerdApi(socket, namespace, id), { id, snapshotter, name, image, onProgress });
      } finally {
        await ifThere(api.leases.delete({ id, sync: true }));
      }
      const found = await findContainerImage(api, name);
      if (found === undefined) throw new ImageError("Unavailable", `image ${name} was removed while it was taken over`);
      return found;
    },
  };
}

interface ImportRequest {
  /** Of the lease; names what is made meanwhile. */
  readonly id: string;
  readonly snapshotter: string;
  readonly name: string;
  readonly image: LaidOutImage;
  readonly onProgress: (progress: ImportProgress) => void;
}

async function importImage(api: ContainerdApi, request: ImportRequest): Promise<void> {
  const { image, name, snapshotter, onProgress } = request;
  const { layers, config } = image.manifest;
  const chain = chainIds(image.config.diffIds);
  if (chain.length !== layers.length) throw new ImageError("Invalid", "the image's configuration is for other layers");
  for (const [index, layer] of layers.entries()) {
    onProgress({ phase: "store", layer: index + 1, layers: layers.length });
    await store(api, request, layer, {});
  }
  for (const [index, layer] of layers.entries()) {
    onProgress({ phase: "unpack", layer: index + 1, layers: layers.length });
    await unpack(api, request, layer, chain[index - 1] ?? "", chain[index] ?? "", image.config.diffIds[index] ?? "");
  }
  const top = chain.at(-1);
  // What is kept: an image keeps its manifest, and each part what its labels name.
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
    // Layers are shared by images, and an image may be there already.
    if (!failedWith(error, Code.AlreadyExists)) throw error;
  }
}

/** Makes the snapshot `chainId`: that of the layers below, with this one over it. */
async function unpack(
  api: ContainerdApi,
  { id, snapshotter }: ImportRequest,
  { mediaType, digest, size }: Descriptor,
  parent: string,
  chainId: string,
  diffId: string,
): Promise<void> {
  if ((await ifThere(api.snapshots.stat({ snapshotter, key: chainId }))) !== undefined) return;
  const key = `${id}-${chainId}`;
  const { mounts } = await api.snapshots.prepare({ snapshotter, key, parent });
  const { applied } = await api.diff.apply({ diff: { mediaType, digest, size: BigInt(size) }, mounts });
  if (applied?.digest !== diffId) {
    throw new ImageError("Invalid", `the image is damaged: layer ${digest} is not what its configuration says`);
  }
  try {
    await api.snapshots.commit({ snapshotter, name: chainId, key });
  } catch (error) {
    // Another import was faster.
    if (!failedWith(error, Code.AlreadyExists)) throw error;
    await api.snapshots.remove({ snapshotter, key });
  }
}
