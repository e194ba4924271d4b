import { existsSync, lstatSync, mkdirSync, readFileSync, readlinkSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { defaultPath } from "../program/program-spec.ts";
import type { BindMount } from "../isolation.ts";
import { StartFailure } from "../process/launcher.ts";
import type { LaunchRequest } from "../process/launcher.ts";
import { hiddenFiles, imageWork, machineFolders } from "../bubblewrap/machine-root.ts";
import { cwdOf, executableOf, makeTemporary, makeWork, own, userOf } from "../program/program-place.ts";
import { programVariable } from "../process/process-tree.ts";
import { pathInRoot } from "../files/root-path.ts";
import { resolveUser } from "../program/user.ts";
import type { UserIds } from "../program/user.ts";
import type { ContainerImage } from "./containerd-images.ts";
import { imageCapabilities, ociSpec } from "./oci-spec.ts";

/** A mount as containerd has it. */
export interface Mount {
  readonly type: string;
  readonly source: string;
  readonly options: readonly string[];
}

/** The cgroup of a namespace's programs, in every hierarchy. */
export const cgroupParent = (namespace: string): string => `/${namespace}`;

/** How a program becomes a container. */
export interface ContainerPlan {
  /** config.json of the container. */
  readonly spec: Readonly<Record<string, unknown>>;
  readonly rootfs: readonly Mount[];
}

/** Where a plan's root comes from: an image's snapshot; nowhere for the machine's own programs, or a folder. */
export interface ImageRoot {
  readonly image: ContainerImage;
  readonly mounts: readonly Mount[];
}

/** Whose files a program finds under `/`: the folders that its mounts are made from, the topmost first. */
function layersOf(mounts: readonly Mount[]): readonly string[] {
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

/** A user in the words of an image: by number, or by name in its own passwd file. */
function userIn(mounts: readonly Mount[], user: string): UserIds {
  const files = layersOf(mounts).map((root) => pathInRoot(root, "/etc/passwd"));
  const passwd = files.find((path) => existsSync(path));
  const resolved = resolveUser(user, passwd === undefined ? "" : readFileSync(passwd, "utf8"));
  if ("problem" in resolved) {
    throw new StartFailure(`The program could not be started: there is no user ${user} in its image`, 126);
  }
  return resolved;
}

/** The skeleton of a root that shows this machine's own programs: links as they are here; folders are bound over it. */
function makeMachineRoot(path: string): readonly BindMount[] {
  mkdirSync(path, { recursive: true, mode: 0o755 });
  const binds: BindMount[] = [];
  for (const folder of machineFolders) {
    if (!existsSync(folder)) continue;
    const here = join(path, folder);
    if (!lstatSync(folder).isSymbolicLink()) binds.push({ source: folder, target: folder });
    else if (lstatSync(here, { throwIfNoEntry: false }) === undefined) symlinkSync(readlinkSync(folder), here);
  }
  for (const file of hiddenFiles) if (existsSync(file)) binds.push({ source: "/dev/null", target: file });
  return binds;
}

/** Files of the machine that a program on the machine's network needs to find others by name. */
const networkFiles = ["/etc/resolv.conf", "/etc/hosts"];

/**
 * Plans the container of a program and makes the folders that it needs. Throws {@link StartFailure} for what can be seen to be
 * missing before anything is started: for the machine's own programs all of it, for images the rest is the runtime's to see.
 */
export async function planContainer(
  request: LaunchRequest,
  options: { readonly namespace: string; readonly binds: readonly BindMount[]; readonly imageRoot?: ImageRoot },
): Promise<ContainerPlan> {
  const { spec, folder } = request;
  const { root, network = "shared", hostname, binds = [] } = spec.isolation ?? {};
  const { imageRoot } = options;
  const isMachine = imageRoot === undefined && root === undefined;
  const env = { PATH: defaultPath, ...imageRoot?.image.env, ...spec.env, [programVariable]: folder.tag };
  const shared = {
    command: spec.command,
    hasTerminal: spec.terminal !== undefined,
    limits: spec.limits ?? {},
    cgroupsPath: `${cgroupParent(options.namespace)}/${folder.tag}`,
    network,
    env,
    ...(hostname !== undefined && { hostname }),
  };
  if (isMachine) {
    const user = userOf(spec);
    const cwd = cwdOf(request, user);
    executableOf(spec, user, cwd);
    const skeleton = join(folder.path, "rootfs");
    const machine = makeMachineRoot(skeleton);
    const temporary = join(folder.path, "tmp");
    makeTemporary(temporary);
    const ownBinds: readonly BindMount[] = [
      { source: temporary, target: "/tmp", isWritable: true },
      ...options.binds,
      ...binds,
      { source: folder.work, target: folder.work, isWritable: true },
    ];
    return {
      rootfs: [{ type: "bind", source: skeleton, options: ["rbind", "rw"] }],
      spec: ociSpec({
        ...shared,
        cwd,
        user: user ?? own,
        binds: [...machine, ...ownBinds.filter(({ source }) => existsSync(source))],
        isRootWritable: false,
        capabilities: [],
      }),
    };
  }
  const rootfs = imageRoot?.mounts ?? overlayOf(request, root ?? "/");
  const user = userIn(rootfs, spec.user ?? imageRoot?.image.user ?? "0");
  makeWork(folder.work, user);
  const names = network === "shared" ? networkFiles.filter((path) => existsSync(path)) : [];
  return {
    rootfs,
    spec: ociSpec({
      ...shared,
      cwd: spec.cwd ?? imageWork,
      user,
      binds: [
        ...names.map((path) => ({ source: path, target: path })),
        ...options.binds,
        ...binds,
        { source: folder.work, target: imageWork, isWritable: true },
      ],
      isRootWritable: spec.isolation?.isRootReadOnly !== true,
      capabilities: imageCapabilities,
    }),
  };
}

/** A folder with an unpacked image under a layer of the program's own, so that the folder stays as it is. */
function overlayOf({ folder }: LaunchRequest, root: string): readonly Mount[] {
  const [upper, work] = [join(folder.path, "upper"), join(folder.path, "overlay")];
  for (const path of [upper, work]) mkdirSync(path, { recursive: true, mode: 0o755 });
  if ([root, upper, work].some((path) => /[:,\\]/.test(path))) {
    throw new StartFailure(`The program could not be started: a colon, comma or backslash in ${root} or ${upper}`, 126);
  }
  return [{ type: "overlay", source: "overlay", options: [`lowerdir=${root}`, `upperdir=${upper}`, `workdir=${work}`] }];
}
