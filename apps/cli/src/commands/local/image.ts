import { existsSync } from "node:fs";
import { homedir, tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { setTimeout } from "node:timers/promises";
import { type FlagValues, formatResult, outputFlag, renderTable } from "@keelson/operator";
import {
  type ContainerdImages,
  defaultContainerdSocket,
  ImageError,
  type ImageLayout,
  openContainerdImages,
  openImage,
  openUnpackedImages,
  parseImageReference,
  pullImage,
  readDockerCredentials,
  type UnpackedImages,
} from "@keelson/execution";
import { imagesFolder, sandboxes } from "@keelson/sandboxes";
import type { Command } from "commander";
import { UsageError } from "@keelson/operator/flags";
import { addFlag, flagValues } from "../../command-line.ts";
import type { DefineCommand } from "../commands.ts";
import { dataDirFlag } from "./data-dir-flag.ts";

/** A store of images: unpacked ones for sandboxes, those of containerd for Pods that it runs. */
type Place = "sandboxes" | "containerd";

/** An image as the commands print it. */
interface Row {
  readonly name: string;
  readonly digest: string;
  readonly places: readonly Place[];
}

/** The stores that the commands act on. */
interface Stores {
  readonly unpacked: UnpackedImages;
  /** Absent if this machine has no containerd. */
  readonly containerd?: ContainerdImages;
}

type Action = (stores: Stores, args: readonly string[], flags: FlagValues) => Promise<void>;

/** Defines `keelson image`. */
export const defineImageCommand: DefineCommand = (image) => {
  const add = (call: string, description: string, act: Action): Command => {
    const command = image.command(call).description(description);
    addFlag(command, dataDirFlag);
    addFlag(command, {
      name: "containerd-address",
      value: "SOCKET",
      description: `socket of a containerd to keep in sync, or none (default: ${defaultContainerdSocket} if present)`,
    });
    addFlag(command, outputFlag);
    command.action(async () => {
      const flags = flagValues(command);
      await act(await openStores(flags), command.args, flags);
    });
    return command;
  };
  addFlag(add("import <file> [name]", "import an OCI archive or layout, replacing an image of the same name", importImage), {
    name: "name",
    value: "NAME",
    description: "image name that workloads use, such as example.org/tool:1 (default: the name in the archive)",
  });
  add("pull <name>", "pull an image from its registry with the credentials of `docker login`", pullToStores);
  add("list", "list images", listImages);
  add("delete <name>", "delete an image name; the files are deleted with the last name", deleteImage).alias("remove");
};

async function openStores(flags: FlagValues): Promise<Stores> {
  const address = flags["containerd-address"];
  const unpacked = await openUnpackedImages(imagesFolder(join(resolve(dataDirFlag.read(flags)), sandboxes.name)));
  const socket = typeof address === "string" ? resolve(address) : defaultContainerdSocket;
  if (address === "none" || (address === undefined && !existsSync(socket))) return { unpacked };
  try {
    return { unpacked, containerd: await openContainerdImages({ socket, random: Math.random, now: Date.now }) };
  } catch (error) {
    if (address !== undefined) throw error;
    const reason = error instanceof Error ? error.message : String(error);
    process.stderr.write(`keelson: containerd is not kept in sync (${reason}); pass --containerd-address none to skip it\n`);
    return { unpacked };
  }
}

const report = (text: string): void => void process.stderr.write(`${text}\n`);

async function importImage(stores: Stores, [file = "", positional]: readonly string[], flags: FlagValues): Promise<void> {
  const name = typeof flags.name === "string" ? flags.name : positional;
  if (!existsSync(file)) throw new UsageError(`${file}: file not found; create one with \`docker save\` or \`skopeo copy\``);
  try {
    const image = await openImage(resolve(file), { temporary: tmpdir() });
    await keep(stores, image, flags, name);
  } catch (error) {
    throw error instanceof ImageError ? new Error(`${file}: ${error.message}`, { cause: error }) : error;
  }
}

async function pullToStores(stores: Stores, [name = ""]: readonly string[], flags: FlagValues): Promise<void> {
  const accounts = join(process.env.DOCKER_CONFIG ?? join(homedir(), ".docker"), "config.json");
  let reported = 0;
  const image = await pullImage(name, {
    temporary: tmpdir(),
    fetch,
    credentials: await readDockerCredentials(accounts),
    pause: (ms) => setTimeout(ms),
    onProgress({ doneBytes, totalBytes }) {
      const tenths = Math.floor((doneBytes * 10) / totalBytes);
      if (tenths !== reported) report(`fetched ${tenths * 10} % of ${totalBytes} bytes`);
      reported = tenths;
    },
  });
  await keep(stores, image, flags, name);
}

/** Adds an image to every store, and prints it. */
async function keep({ unpacked, containerd }: Stores, image: ImageLayout, flags: FlagValues, name = image.name): Promise<void> {
  try {
    if (name === undefined) throw new UsageError("the archive does not name its image: pass --name");
    const added = await unpacked.add(name, image, ({ layer, layers }) => report(`unpacking layer ${layer} of ${layers}`));
    await containerd?.add(added.name, image, ({ phase, layer, layers }) =>
      report(`containerd: ${phase} layer ${layer} of ${layers}`),
    );
    const places: readonly Place[] = containerd === undefined ? ["sandboxes"] : ["sandboxes", "containerd"];
    const row: Row = { name: added.name, digest: added.digest, places };
    process.stdout.write(formatResult({ flags }, row, () => `${row.name} ${row.digest}\n`));
  } finally {
    await image.close();
  }
}

async function listImages({ unpacked, containerd }: Stores, _: readonly string[], flags: FlagValues): Promise<void> {
  const rows = new Map<string, Row>();
  for (const { name, digest } of unpacked.list()) rows.set(name, { name, digest, places: ["sandboxes"] });
  for (const { name, digest } of (await containerd?.list()) ?? []) {
    rows.set(name, { name, digest, places: [...(rows.get(name)?.places ?? []), "containerd"] });
  }
  const all = [...rows.values()].sort((a, b) => (a.name < b.name ? -1 : 1));
  const rowOf = ({ name, digest, places }: Row): string[] => [name, digest.slice(7, 19), places.join(",")];
  const table = (): string => renderTable([["NAME", "DIGEST", "PLACES"], ...all.map(rowOf)]);
  process.stdout.write(formatResult({ flags }, all, table));
}

async function deleteImage({ unpacked, containerd }: Stores, [name = ""]: readonly string[], flags: FlagValues): Promise<void> {
  const full = parseImageReference(name).name;
  const places: Place[] = [];
  if (await unpacked.remove(full)) places.push("sandboxes");
  if (containerd !== undefined && (await containerd.remove(full))) places.push("containerd");
  if (places.length === 0) throw new Error(`image ${full} not found: \`keelson image list\` lists the images`);
  process.stdout.write(formatResult({ flags }, { name: full, places }, () => `${full} deleted\n`));
}
