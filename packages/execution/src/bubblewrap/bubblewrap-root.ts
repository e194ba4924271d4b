import { existsSync, lstatSync, readdirSync, readlinkSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { machineFolders } from "./machine-root.ts";
import { pathInRoot } from "../files/root-path.ts";

/** What the kernel or we put into a root. */
const notOfImages: ReadonlySet<string> = new Set(["/proc", "/dev", "/sys", "/tmp", "/run"]);

/** Where a path of an image is, as a path of the image without links in it. */
export function resolveInImage(root: string, path: string): string {
  return join("/", relative(root, pathInRoot(root, path)));
}

/**
 * bubblewrap's options for a root with the files of an image, read-only. A folder in which a mount has its place, and that has nothing
 * there, is made anew with the image's files in it: into the image itself no place can be put.
 */
export function imageRoot(root: string, mounts: readonly { readonly target: string }[]): readonly string[] {
  const opened = new Set(["/"]);
  for (const { target } of mounts) {
    if (existsSync(join(root, target))) continue;
    let folder = dirname(target);
    while (!existsSync(join(root, folder))) folder = dirname(folder);
    for (; folder !== "/"; folder = dirname(folder)) opened.add(folder);
  }
  return [...folderParts(root, "/", opened)];
}

function* folderParts(root: string, folder: string, opened: ReadonlySet<string>): Generator<string> {
  for (const entry of readdirSync(join(root, folder), { withFileTypes: true })) {
    const path = join(folder, entry.name);
    if (notOfImages.has(path)) continue;
    if (entry.isSymbolicLink()) yield* ["--symlink", readlinkSync(join(root, path)), path];
    else if (opened.has(path)) {
      yield* ["--dir", path];
      yield* folderParts(root, path, opened);
    } else yield* ["--ro-bind", join(root, path), path];
  }
}

/** bubblewrap's options for a root with this machine's own programs. */
export function* machineRoot(): Generator<string> {
  for (const path of machineFolders) {
    if (!existsSync(path)) continue;
    // A link into /usr (as on machines with a merged one) stays a link, so that programs see what they would see outside.
    if (lstatSync(path).isSymbolicLink()) yield* ["--symlink", readlinkSync(path), path];
    else yield* ["--ro-bind", path, path];
  }
  yield* ["--dir", "/var"];
}
