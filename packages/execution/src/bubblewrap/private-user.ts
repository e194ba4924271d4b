import { createHash } from "node:crypto";
import { existsSync, readFileSync, renameSync, statSync, writeFileSync } from "node:fs";
import { release } from "node:os";
import { describeError } from "../files/file-error.ts";
import type { Isolation } from "../isolation.ts";
import { StartFailure } from "../process/launcher.ts";
import type { ProgramFolder } from "../program/files/program-folder.ts";
import type { UserIds } from "../program/users/user.ts";

/*
 * A program with a private user runs as a user id of the host that no other program has. bubblewrap cannot give away its user id, and the
 * program's directories may be below directories that only root can enter. So a small script prepares the start, as root and in a mount namespace
 * of its own: it binds the program's directories below a stage that everyone can enter, changes the user, and executes bubblewrap.
 */

/** First of the private ids: above the ranges of systemd-nspawn and of /etc/subuid, below 2^31. */
const firstId = 1_879_048_192;
const idCount = 268_000_000;

/** Directories on which the stage can be mounted. The first that contains no source is used; they are hidden in the namespace only. */
const stageFolders = ["/mnt", "/media", "/srv", "/boot"];

/** The host user id that programs with this `Isolation.userScope` share, for instance to own the files that they are to read. */
export function privateUserOf(scope: string): UserIds {
  const id = firstId + (createHash("sha256").update(scope).digest().readUIntBE(0, 6) % idCount);
  return { uid: id, gid: id };
}

/** What the host ids of a program derive from: its scope or its tag, so every supervisor computes the same. */
export const privateScope = ({ tag }: Pick<ProgramFolder, "tag">, { userScope }: Pick<Isolation, "userScope"> = {}): string =>
  userScope ?? tag;

/** The private user of a program. */
export const privateUser = (folder: Pick<ProgramFolder, "tag">, isolation?: Pick<Isolation, "userScope">): UserIds =>
  privateUserOf(privateScope(folder, isolation));

/** Collects the directories that a program is to see, and where bubblewrap finds them. */
export class Stage {
  readonly #sources: string[] = [];
  readonly #folder: string;

  constructor(paths: readonly string[]) {
    const isFree = (folder: string): boolean => !paths.some((path) => path === folder || path.startsWith(`${folder}/`));
    this.#folder = stageFolders.find(isFree) ?? "/mnt";
  }

  /** The path of a source on the stage. A source in a directory that was added before needs no mount. */
  add(source: string): string {
    const index = this.#sources.findIndex((each) => source === each || source.startsWith(`${each}/`));
    if (index >= 0) return `${this.#folder}/${index}${source.slice(this.#sources[index]?.length)}`;
    this.#sources.push(source);
    return `${this.#folder}/${this.#sources.length - 1}`;
  }

  /** Where the stage is mounted. */
  get folder(): string {
    return this.#folder;
  }

  /** The directories and files on the stage, in the order of their paths on it, which are numbers from 0 on. */
  get sources(): readonly string[] {
    return this.#sources;
  }

  /** Where {@link Stage.wrap} with `processes` `own` mounts them. */
  get processes(): string {
    return `${this.#folder}/proc`;
  }

  /** Where the terminals of the program are mounted. bubblewrap's own mount would not limit them. */
  get terminals(): string {
    return `${this.#folder}/pts`;
  }

  /** Shell code that mounts nothing but the processes of the namespace in which the children of the shell are. */
  mountProcesses(): string {
    const folders = `mount -t tmpfs -o mode=755,size=1m keelson-stage ${this.#folder} && mkdir ${this.processes}`;
    return `${folders} && mount -t proc -o nosuid,nodev,noexec keelson-exec ${this.processes} || exit 125`;
  }

  /**
   * Wraps a command so that it runs as `user` in a mount namespace with the stage. The mounts are written to `file`, whose content is the
   * same for every command of a program with these `processes`: `hidden` (default) hides the machine's in `/proc`, if the kernel can;
   * `own` mounts those of the namespace in which the children of the command are on the stage.
   */
  wrap(
    user: UserIds & { readonly groups?: readonly number[] },
    command: readonly string[],
    file: string,
    processes: "hidden" | "own" = "hidden",
  ): readonly [string, ...string[]] {
    const script = ["/bin/sh", "-c", 'eval "$KEELSON_STAGE_SCRIPT"', "keelson-sandbox"];
    const { groups = [] } = user;
    const mounts: MountEntry[] = [
      { type: "tmpfs", source: "keelson-stage", target: this.#folder, options: "mode=755,size=1m" },
      ...(processes === "hidden" && canHideProcesses() ? [hiddenProcesses] : []),
      {
        type: "devpts",
        source: "keelson-terminals",
        target: this.terminals,
        options: `nosuid,noexec,${terminalOptions},X-mount.mkdir`,
      },
      ...(processes === "own"
        ? [
            {
              type: "proc",
              source: "keelson-exec",
              target: this.processes,
              options: "nosuid,nodev,noexec,X-mount.mkdir",
            } as const,
          ]
        : []),
    ];
    const files: string[] = [];
    for (const [index, source] of this.#sources.entries()) {
      const target = `${this.#folder}/${index}`;
      if (isFolder(source)) mounts.push({ type: "none", source, target, options: "rbind,X-mount.mkdir" });
      else files.push(source, target);
    }
    writeMounts(file, mounts);
    return [
      ...(["unshare", "--mount", "--propagation", "private", "--"] as const),
      ...script,
      file,
      String(user.uid),
      String(user.gid),
      groups.length === 0 ? "--clear-groups" : `--groups=${groups.join(",")}`,
      String(files.length / 2),
      ...files,
      ...command,
    ];
  }
}

/**
 * bubblewrap keeps a descriptor of the machine's /proc until it executes the program, so a working directory of `/proc/self/fd/N` leads
 * there. In this one, users see their own processes only.
 */
export const hiddenProcesses: MountEntry = {
  type: "proc",
  // mount(8) skips a file system that is mounted already, which it recognizes by its source.
  source: "keelson-processes",
  target: "/proc",
  options: "nosuid,nodev,noexec,hidepid=2",
};

/** Options of `/dev/pts`. The machine's terminals (`kernel.pty.max`) are shared by all programs. */
export const terminalOptions = "newinstance,ptmxmode=0666,mode=0620,max=64";

/** Shell code that hides the machine's processes from users in the mount namespace it runs in, if the kernel can. */
export const hideProcesses = (): string =>
  canHideProcesses() ? `mount -t proc -o ${hiddenProcesses.options} ${hiddenProcesses.source} /proc || exit 125` : ":";

/** Before Linux 5.8 the option would apply to the whole machine. Only the initial user namespace may always mount /proc. */
export function canHideProcesses(): boolean {
  const [major = 0, minor = 0] = release().split(".").map(Number);
  return (
    (major > 5 || (major === 5 && minor >= 8)) && /^\s*0\s+0\s+4294967295$/m.test(readFileSync("/proc/self/uid_map", "latin1"))
  );
}

/** Whether a source of a stage is a directory. **Errors**: {@link StartFailure} if it does not exist. */
export function isFolder(path: string): boolean {
  try {
    return statSync(path).isDirectory();
  } catch (error) {
    throw new StartFailure(`could not start the program: ${path}: ${describeError(error)}`, 126);
  }
}

interface MountEntry {
  readonly type: "tmpfs" | "proc" | "devpts" | "none";
  readonly source: string;
  readonly target: string;
  readonly options: string;
}

/** Writes mounts for one call of mount(8), in the format of fstab(5), unless the file exists. */
function writeMounts(file: string, mounts: readonly MountEntry[]): void {
  if (existsSync(file)) return;
  const lines = mounts.map(
    ({ type, source, target, options }) => `${escaped(source)} ${escaped(target)} ${type} ${options} 0 0\n`,
  );
  // A concurrent command must not read a part of it.
  writeFileSync(`${file}.new`, lines.join(""), { mode: 0o600 });
  renameSync(`${file}.new`, file);
}

/** fstab(5) separates fields by white space and writes special characters in octal. */
const escaped = (path: string): string =>
  path.replace(/[\s\\#]/g, (character) => `\\${character.charCodeAt(0).toString(8).padStart(3, "0")}`);

/** Exit code of the scripts if they cannot prepare the start. */
export const stagingFailed = 125;

/** The begin of the staging script: the mounts. It is passed in a variable, so that `ps` shows a name and not the script. */
const stageMounts = `unset KEELSON_STAGE_SCRIPT
keelson_mounts=$1 keelson_uid=$2 keelson_gid=$3 keelson_groups=$4 keelson_count=$5
shift 5
mount -a -T "$keelson_mounts" || exit 125
while [ "$keelson_count" -gt 0 ]; do
  : >"$2" && mount --bind "$1" "$2" || exit 125
  keelson_count=$((keelson_count - 1))
  shift 2
done
`;

const dropPrivileges =
  '--reuid "$keelson_uid" --regid "$keelson_gid" "$keelson_groups" --inh-caps=-all --bounding-set=-all --no-new-privs';

/** The end of the staging script: executes the arguments as the private user. */
const enter = `exec setpriv ${dropPrivileges} -- "$@"`;

/**
 * The end of the staging script of a slot. A shell waits with everything mounted, then reads its arguments from the file of its claim. In a
 * slot of an image, bubblewrap waits instead, with the file of the claim as its program.
 */
const endings = {
  shell: `echo staged >&6
read -r keelson_go <&6 && [ "$keelson_go" = go ] || {
  echo unreleased >&3
  exit 0
}
echo ready >&6
. /proc/self/fd/7
${enter} 6<&- 7<&-
`,
  image: `echo staged >&6
${enter} 7<&-
`,
} as const;

/** The staging script of a slot. */
export const slotScript = (kind: keyof typeof endings): string => `${stageMounts}${endings[kind]}`;

/** Shell code that sets the arguments of the staging script. */
export const setArguments = (command: readonly string[]): string =>
  `set -- ${command.map((argument) => `'${argument.replaceAll("'", "'\\''")}'`).join(" ")}\n`;

/** The staging script of a program. */
export const stageScript = `${stageMounts}${enter}
`;

/**
 * Mounts file systems of limited size over directories of a program, on the host, then executes the rest of the arguments. A file may not
 * become larger than the limit, in blocks of 512 bytes: the program's logs are files of the host, which it can extend without writing.
 */
export const quotaScript = `unset KEELSON_QUOTA_SCRIPT
keelson_mounts=$1
ulimit -f "$2" || exit 125
shift 2
mount -a -T "$keelson_mounts" || exit 125
exec "$@"
`;

/** Source of the file systems with a size limit. */
export const quotaSource = "keelson-sandbox";

/** Options of a file system with a size limit, for a private user. */
export const quotaOptions = ({ uid, gid }: UserIds, sizeBytes: number): string =>
  `mode=1777,size=${sizeBytes},nr_inodes=65536,uid=${uid},gid=${gid}`;

/** The maximum size of a file, in blocks of 512 bytes. */
export const quotaBlocks = (sizeBytes: number): number => Math.ceil(sizeBytes / 512);

/** Wraps a command so that `folders` are mounted with a size limit before it runs. The mounts are written to `file`. */
export function withQuota(
  user: UserIds,
  sizeBytes: number,
  folders: readonly string[],
  command: readonly string[],
  file: string,
): readonly [string, ...string[]] {
  const script = ["-c", 'eval "$KEELSON_QUOTA_SCRIPT"', "keelson-sandbox"];
  const options = `${quotaOptions(user, sizeBytes)},nosuid,nodev`;
  const mounts = folders.map((target): MountEntry => ({ type: "tmpfs", source: quotaSource, target, options }));
  writeMounts(file, mounts);
  return ["/bin/sh", ...script, file, String(quotaBlocks(sizeBytes)), ...command];
}
