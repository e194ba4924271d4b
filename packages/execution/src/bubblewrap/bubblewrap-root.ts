import { existsSync, lstatSync, readdirSync, readlinkSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { generatedSettings, machineFolders, publicSettings } from "./machine-root.ts";
import { pathInRoot } from "../files/root-path.ts";

/** Directories that are mounted separately in every root. */
const separateMounts: ReadonlySet<string> = new Set(["/proc", "/dev", "/sys", "/tmp", "/run"]);

/** Resolves the links of a path inside an image. */
export function resolveInImage(root: string, path: string): string {
  return join("/", relative(root, pathInRoot(root, path)));
}

/**
 * bubblewrap's options for a root with the files of an image, read-only. Mount points that the image lacks cannot be created in it, so
 * their parent directories are recreated and filled with the image's files. `source` is where bubblewrap finds the image.
 */
export function imageRoot(root: string, mounts: readonly { readonly target: string }[], source = root): readonly string[] {
  const opened = new Set(["/"]);
  for (const { target } of mounts) {
    if (existsSync(join(root, target))) continue;
    let folder = dirname(target);
    while (!existsSync(join(root, folder))) folder = dirname(folder);
    for (; folder !== "/"; folder = dirname(folder)) opened.add(folder);
  }
  return [...folderParts({ root, source }, "/", opened)];
}

function* folderParts(
  image: { readonly root: string; readonly source: string },
  folder: string,
  opened: ReadonlySet<string>,
): Generator<string> {
  for (const entry of readdirSync(join(image.root, folder), { withFileTypes: true })) {
    const path = join(folder, entry.name);
    if (separateMounts.has(path)) continue;
    if (entry.isSymbolicLink()) yield* ["--symlink", readlinkSync(join(image.root, path)), path];
    else if (opened.has(path)) {
      yield* ["--dir", path];
      yield* folderParts(image, path, opened);
    } else yield* ["--ro-bind", join(image.source, path), path];
  }
}

/** bubblewrap's options for a root with this machine's own programs and a generated /etc, whose files are below `settings`. */
export function* machineRoot(settings: string): Generator<string> {
  for (const path of machineFolders) {
    if (existsSync(path)) yield* bindOrLink(path);
  }
  yield* ["--dir", "/var", "--dir", "/etc"];
  for (const path of publicSettings) if (existsSync(path)) yield* bindOrLink(path);
  for (const name of generatedSettings) yield* ["--ro-bind", join(settings, name), `/etc/${name}`];
}

/** A link (as into a merged /usr) stays a link, so that programs see the same layout as outside. */
function* bindOrLink(path: string): Generator<string> {
  if (lstatSync(path).isSymbolicLink()) yield* ["--symlink", readlinkSync(path), path];
  else yield* ["--ro-bind", path, path];
}
