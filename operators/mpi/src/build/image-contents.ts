import { existsSync, readdirSync, realpathSync, statSync } from "node:fs";
import { basename, delimiter, dirname, join } from "node:path";
import type { ImageEntry, ImageLayerContent } from "@keelson/execution";
import type { MpiFiles } from "./mpi-files.ts";
import { sharedLibrariesOf } from "./shared-libraries.ts";

/** Directory of the program in the image. */
const programFolder = "/app";

/** What the launcher, the workers and simple scripts use. */
const shellPrograms = ["sh", "cat", "chmod", "env", "hostname", "ls", "mkdir", "mkfifo", "mv", "rm", "sleep"];

/** Path of a program in the image. */
export function programPath(program: string): string {
  return `${programFolder}/${basename(program)}`;
}

/**
 * The layers of an image with a program, its MPI and the shared libraries of both, as they are on this machine.
 *
 * **Errors**: one that names a program or a library that is missing.
 */
export function imageLayers(program: string, mpi: MpiFiles, searchPath: string): readonly ImageLayerContent[] {
  const tools = shellPrograms.map((name) => ({ name, source: findProgram(name, searchPath) }));
  const sources = [program, ...mpi.programs, ...tools.map(({ source }) => source)];
  const own = mpi.folders.flatMap(filesOf);
  const direct = sharedLibrariesOf([...sources, ...own.filter(isLibrary).map(({ path }) => path)]);
  const plugins = pluginFolders(direct).flatMap(filesOf);
  const libraries = new Set([...direct, ...sharedLibrariesOf(plugins.filter(isLibrary).map(({ path }) => path))]);
  const mpiexec = mpi.programs[0] ?? "";
  const base = [
    ...[...libraries].map((path) => file(path, path)),
    ...tools.map(({ name, source }) => file(`/bin/${name}`, source)),
    text("/etc/passwd", "root:x:0:0:root:/root:/bin/sh\n"),
    text("/etc/group", "root:x:0:\n"),
    text("/etc/nsswitch.conf", "hosts: files dns\n"),
    { path: "/tmp", mode: 0o1777, content: { kind: "folder" } } as const,
  ];
  const links = mpi.names.map((name): ImageEntry => ({ path: name, mode: 0o777, content: { kind: "link", target: mpiexec } }));
  return [
    { description: "system libraries and sh", entries: base },
    { description: "MPI", entries: [...mpi.programs.map((path) => file(path, path)), ...links, ...own, ...plugins] },
    { description: basename(program), entries: [file(programPath(program), program)] },
  ];
}

const isLibrary = ({ path }: ImageEntry): boolean => /\.so(?:\.|$)/.test(path);

/** Directories with the plugins and help texts of libraries: PMIx, which Open MPI uses, and UCX, which MPICH does. */
function pluginFolders(libraries: readonly string[]): readonly string[] {
  const folders = libraries.flatMap((path) => {
    // UCX looks alongside the path that it was loaded from, PMIx where it was installed.
    if (path.includes("/libucs.so")) return [join(dirname(path), "ucx")];
    const installed = dirname(realpathSync(path));
    return path.includes("/libpmix.so") ? [join(installed, "pmix"), join(installed, "../share/pmix")] : [];
  });
  return [...new Set(folders)].filter((folder) => existsSync(folder));
}

function findProgram(name: string, searchPath: string): string {
  const folders = [...searchPath.split(delimiter), "/usr/bin", "/bin"];
  const found = folders.map((folder) => join(folder, name)).find((path) => existsSync(path));
  if (found === undefined) throw new Error(`${name} not found on the PATH`);
  return found;
}

function file(path: string, source: string): ImageEntry {
  const real = realpathSync(source);
  return { path, mode: statSync(real).mode & 0o755, content: { kind: "file", source: real } };
}

const text = (path: string, content: string): ImageEntry => ({ path, mode: 0o644, content: { kind: "text", text: content } });

/** The files of a directory and of those below it. Symbolic links become the files that they lead to. */
function filesOf(folder: string): readonly ImageEntry[] {
  return readdirSync(folder).flatMap((name) => {
    const path = join(folder, name);
    const stat = statSync(path, { throwIfNoEntry: false });
    if (stat === undefined) return [];
    return stat.isDirectory() ? filesOf(path) : [file(path, path)];
  });
}
