import { existsSync, lstatSync, mkdirSync, readlinkSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import type { ProgramGroup } from "../cgroup/program-group.ts";
import { readAccountFile } from "../program/users/account-file.ts";
import { defaultPath } from "../program/program-spec.ts";
import type { CallProfile } from "../bubblewrap/seccomp-filter.ts";
import type { BindMount } from "../isolation.ts";
import { StartFailure } from "../process/launcher.ts";
import type { LaunchRequest } from "../process/launcher.ts";
import { generatedSettings, imageWork, machineFolders, publicSettings, writeSettings } from "../bubblewrap/machine-root.ts";
import {
  prepareWorkingDirectory,
  findExecutable,
  createTemporaryFolder,
  createWorkFolder,
} from "../program/files/program-files.ts";
import { own, programUser } from "../program/users/program-user.ts";
import { attainableScore } from "../process/oom-score.ts";
import { programVariable } from "../process/process-tree.ts";
import { pathInRoot } from "../files/root-path.ts";
import { resolveUser } from "../program/users/user.ts";
import type { UserIds } from "../program/users/user.ts";
import type { ContainerImage } from "./containerd-images.ts";
import { imageCapabilities, type OciProgram, ociSpec } from "./oci-spec.ts";
import { createMountPoints, givePrivateFolders } from "./private-container.ts";

/** A mount in containerd's format. */
export interface Mount {
  readonly type: string;
  readonly source: string;
  readonly options: readonly string[];
}

/** The parent cgroup of a namespace's programs, or of those in a group, in every hierarchy. */
export const cgroupParent = (namespace: string, group?: Pick<ProgramGroup, "name">): string =>
  group === undefined ? `/${namespace}` : `/${namespace}/${group.name}`;

/** The container of a program. */
export interface ContainerPlan {
  /** config.json of the container. */
  readonly spec: Readonly<Record<string, unknown>>;
  readonly rootfs: readonly Mount[];
}

/** The root of a program that runs from an image: its snapshot. */
export interface ImageRoot {
  readonly image: ContainerImage;
  readonly mounts: readonly Mount[];
}

/** The directories whose files appear under `/`, topmost first. */
export function layersOf(mounts: readonly Mount[]): readonly string[] {
  return mounts.flatMap(({ type, source, options }) => {
    if (type !== "overlay") return [source];
    const option = (name: string): readonly string[] =>
      options
        .find((each) => each.startsWith(`${name}=`))
        ?.slice(name.length + 1)
        .split(":") ?? [];
    return [...option("upperdir"), ...option("lowerdir")];
  });
}

/** Resolves a user with an image's own passwd file. */
function userIn(mounts: readonly Mount[], user: string): UserIds {
  const files = layersOf(mounts).map((root) => pathInRoot(root, "/etc/passwd"));
  const passwd = files.find((path) => existsSync(path));
  const resolved = resolveUser(user, passwd === undefined ? "" : readAccountFile(passwd));
  if ("problem" in resolved) {
    throw new StartFailure(`could not start the program: user ${user} not found in its image`, 126);
  }
  return resolved;
}

/** Creates the skeleton of a root with this machine's own programs and a generated /etc, and returns what is mounted over it. */
function createMachineRoot(path: string, settings: string): readonly BindMount[] {
  mkdirSync(join(path, "etc"), { recursive: true, mode: 0o755 });
  const binds: BindMount[] = generatedSettings.map((name) => ({ source: join(settings, name), target: `/etc/${name}` }));
  for (const folder of [...machineFolders, ...publicSettings]) {
    if (!existsSync(folder)) continue;
    const here = join(path, folder);
    if (!lstatSync(folder).isSymbolicLink()) binds.push({ source: folder, target: folder });
    else if (lstatSync(here, { throwIfNoEntry: false }) === undefined) symlinkSync(readlinkSync(folder), here);
  }
  return binds;
}

/** Files that a program on the machine's network needs for name resolution. */
const networkFiles = ["/etc/resolv.conf", "/etc/hosts"];

/**
 * Plans the container of a program and creates the directories that it needs. Throws {@link StartFailure} if something is visibly missing;
 * inside images the runtime reports it instead.
 */
export async function planContainer(
  request: LaunchRequest,
  options: {
    readonly cgroupParent: string;
    readonly binds: readonly BindMount[];
    /** See `ContainerdDriverOptions.calls`. */
    readonly calls?: CallProfile;
    readonly imageRoot?: ImageRoot;
    /** First host id of a program with a private user. */
    readonly firstId?: number;
  },
): Promise<ContainerPlan> {
  const { spec, folder } = request;
  const { root, network = "shared", networkNamespace, hostname, hasCgroupView = false, devices } = spec.isolation ?? {};
  // The runtime could not run commands alongside the program: it enters the user namespace first, which does not own the network.
  if (networkNamespace !== undefined)
    throw new StartFailure("could not start the program: isolation.networkNamespace: requires bubblewrap", 126);
  if (devices !== undefined) throw new StartFailure("could not start the program: isolation.devices: requires bubblewrap", 126);
  const { imageRoot, binds } = options;
  const env = { PATH: defaultPath, ...imageRoot?.image.env, ...spec.env, [programVariable]: folder.tag };
  const shared = {
    command: spec.command,
    hasTerminal: spec.terminal !== undefined,
    limits: spec.limits ?? {},
    cgroupsPath: `${options.cgroupParent}/${folder.tag}`,
    network,
    env,
    ...(hostname !== undefined && { hostname }),
    // The runtime fails if it cannot set the score.
    ...(spec.oomScoreAdjustment !== undefined && { oomScoreAdjustment: attainableScore(spec.oomScoreAdjustment) }),
    ...(hasCgroupView && options.firstId === undefined && { hasCgroupView }),
    ...(options.firstId !== undefined && { firstId: options.firstId }),
    ...(options.calls !== undefined && { calls: options.calls }),
  };
  if (imageRoot === undefined && root === undefined) return planOnMachine(request, shared, binds);
  return planInImage(request, shared, binds, {
    mounts: imageRoot?.mounts ?? overlayOf(request, root ?? "/"),
    user: imageRoot?.image.user,
  });
}

/** The part of a container's configuration that does not depend on its root. */
type SharedConfig = Omit<OciProgram, "cwd" | "user" | "binds" | "isRootWritable" | "capabilities">;

/** A program that runs with the machine's own programs and a generated /etc. */
function planOnMachine(request: LaunchRequest, shared: SharedConfig, extraBinds: readonly BindMount[]): ContainerPlan {
  const { spec, folder } = request;
  const { network = "shared", hostname, binds = [] } = spec.isolation ?? {};
  const isPrivate = shared.firstId !== undefined;
  const user = programUser(spec);
  // The working directory of a program with a private user exists inside only.
  if (isPrivate) createWorkFolder(folder.work, undefined);
  const cwd = isPrivate ? folder.work : prepareWorkingDirectory(request, user);
  findExecutable(spec, user, cwd);
  const skeleton = join(folder.path, "rootfs");
  const settings = join(folder.path, "etc");
  writeSettings(settings, user ?? own, network, hostname);
  const machine = createMachineRoot(skeleton, settings);
  const temporary = join(folder.path, "tmp");
  createTemporaryFolder(temporary);
  const ownBinds: readonly BindMount[] = [
    { source: temporary, target: "/tmp", isWritable: true },
    ...extraBinds,
    ...binds,
    { source: folder.work, target: isPrivate ? imageWork : folder.work, isWritable: true },
  ];
  return planOf(request, [{ type: "bind", source: skeleton, options: ["rbind", "rw"] }], {
    ...shared,
    cwd: isPrivate ? (spec.cwd ?? imageWork) : cwd,
    user: user ?? own,
    binds: [...machine, ...ownBinds.filter(({ source }) => existsSync(source))],
    isRootWritable: false,
    capabilities: [],
  });
}

/** A program that runs with the files of an image. */
function planInImage(
  request: LaunchRequest,
  shared: SharedConfig,
  extraBinds: readonly BindMount[],
  image: { readonly mounts: readonly Mount[]; readonly user: string | undefined },
): ContainerPlan {
  const { spec, folder } = request;
  const isPrivate = shared.firstId !== undefined;
  const { network = "shared", binds = [], isRootReadOnly } = spec.isolation ?? {};
  const user = userIn(image.mounts, spec.user ?? image.user ?? "0");
  createWorkFolder(folder.work, user);
  const names = network === "shared" ? networkFiles.filter((path) => existsSync(path)) : [];
  const temporary = join(folder.path, "tmp");
  if (isPrivate) createTemporaryFolder(temporary);
  return planOf(request, image.mounts, {
    ...shared,
    cwd: spec.cwd ?? imageWork,
    user,
    binds: [
      ...names.map((path) => ({ source: path, target: path })),
      ...(isPrivate ? [{ source: temporary, target: "/tmp", isWritable: true }] : []),
      ...extraBinds,
      ...binds,
      { source: folder.work, target: imageWork, isWritable: true },
    ],
    isRootWritable: isRootReadOnly !== true && !isPrivate,
    capabilities: imageCapabilities,
  });
}

/** The plan of a container. Prepares the directories and the mount points of a program with a private user. */
function planOf({ folder }: LaunchRequest, rootfs: readonly Mount[], program: OciProgram): ContainerPlan {
  if (program.firstId === undefined) return { rootfs, spec: ociSpec(program) };
  const planned = givePrivateFolders(folder, program, program.firstId);
  const [layer] = layersOf(rootfs);
  if (layer !== undefined) createMountPoints(layer, planned);
  return { rootfs, spec: ociSpec(planned) };
}

/** Mounts an unpacked image below a private writable layer, so that the image is not modified. */
export function overlayOf({ folder }: Pick<LaunchRequest, "folder">, root: string): readonly Mount[] {
  const [upper, work] = [join(folder.path, "upper"), join(folder.path, "overlay")];
  for (const path of [upper, work]) mkdirSync(path, { recursive: true, mode: 0o755 });
  if ([root, upper, work].some((path) => /[:,\\]/.test(path))) {
    throw new StartFailure(
      `could not start the program: ${root} and ${upper} must not contain a colon, comma or backslash`,
      126,
    );
  }
  return [{ type: "overlay", source: "overlay", options: [`lowerdir=${root}`, `upperdir=${upper}`, `workdir=${work}`] }];
}
