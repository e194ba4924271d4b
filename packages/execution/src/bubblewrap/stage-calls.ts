import { chmodSync, writeFileSync } from "node:fs";
import type { UserIds } from "../program/users/user.ts";
import { callProgram, type ChildCalls, type SystemCall } from "../stub/call-program.ts";
import {
  canHideProcesses,
  hiddenProcesses,
  isFolder,
  quotaBlocks,
  quotaOptions,
  quotaSource,
  type Stage,
  terminalOptions,
} from "./private-user.ts";

/* The system calls that stage the start of a program, and of a command alongside it. The scripts in `private-user.ts` do the same. */

/** mount(2): MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_BIND, MS_REC, MS_PRIVATE. */
const flags = { nosuid: 2, nodev: 4, noexec: 8, bind: 4096, recursive: 16_384, private: 1 << 18 } as const;
/** RLIMIT_FSIZE. */
const fileSizeLimit = 1;
/** CLONE_NEWNS. */
const newMounts = 0x2_0000;
/** prctl(2): PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS. */
const dropFromBounds = 24;
const setNoNewPrivileges = 38;
/** More capabilities than Linux knows; it answers EINVAL to the others. */
const capabilityCount = 48;
const EINVAL = 22;
/** _LINUX_CAPABILITY_VERSION_3, and this process. */
const capabilityHeader = Buffer.from([0x22, 0x05, 0x08, 0x20, 0, 0, 0, 0]);

/** Writes an executable for root. */
export function writeCallProgram(path: string, calls: readonly (SystemCall | ChildCalls)[]): void {
  writeFileSync(path, callProgram(calls), { mode: 0o700 });
  chmodSync(path, 0o500);
}

const mount = (source: string, target: string, type: string, options: number, data: string): SystemCall => ({
  name: "mount",
  args: [source, target, type, options, data],
  failure: `could not mount ${source} on ${target}`,
});

/** Limits the size of files: logs are files of the machine. */
export function fileSizeCall(sizeBytes: number): SystemCall {
  const limit = Buffer.alloc(16);
  for (const offset of [0, 8]) limit.writeBigUInt64LE(BigInt(quotaBlocks(sizeBytes) * 512), offset);
  return { name: "prlimit64", args: [0, fileSizeLimit, limit, 0], failure: "could not limit the size of files" };
}

/** Limits the size of files, and mounts directories with a size limit on the machine. */
export const quotaCalls = (user: UserIds, sizeBytes: number, folders: readonly string[]): readonly SystemCall[] => [
  fileSizeCall(sizeBytes),
  ...folders.map((folder) => mount(quotaSource, folder, "tmpfs", flags.nosuid | flags.nodev, quotaOptions(user, sizeBytes))),
];

/** Creates a mount namespace in which users do not see the machine's processes. */
export function ownMountCalls(): readonly SystemCall[] {
  const hidden = mount(hiddenProcesses.source, "/proc", "proc", flags.nosuid | flags.nodev | flags.noexec, "hidepid=2");
  return [
    { name: "unshare", args: [newMounts], failure: "could not create a mount namespace" },
    mount("none", "/", "none", flags.recursive | flags.private, ""),
    ...(canHideProcesses() ? [hidden] : []),
  ];
}

const createFolder = (path: string): SystemCall => ({
  name: "mkdir",
  args: [path, 0o755],
  failure: `could not create ${path}`,
});

/** Mounts the terminals and the sources of a stage; with `own` also the processes of the namespace in which child processes are. */
export const stageCalls = (stage: Stage, processes?: "own"): readonly (SystemCall | ChildCalls)[] => [
  mount("keelson-stage", stage.folder, "tmpfs", 0, "mode=755,size=1m"),
  ...(processes === "own" ? [createFolder(stage.processes), processCalls(stage)] : []),
  createFolder(stage.terminals),
  mount("keelson-terminals", stage.terminals, "devpts", flags.nosuid | flags.noexec, terminalOptions),
  ...stage.sources.flatMap((source, index): readonly SystemCall[] => {
    const target = `${stage.folder}/${index}`;
    const create: SystemCall = isFolder(source)
      ? createFolder(target)
      : { name: "mknod", args: [target, 0o10_0644, 0], failure: `could not create ${target}` };
    return [create, mount(source, target, "none", flags.bind | flags.recursive, "")];
  }),
];

/** The kernel mounts the processes of the namespace that the caller is in, which for this program is the machine's. */
const processCalls = (stage: Stage): ChildCalls => ({
  child: [mount("keelson-exec", stage.processes, "proc", flags.nosuid | flags.nodev | flags.noexec, "")],
  failure: "could not create a process in the namespace of the program",
});

/** Enters the namespace of an open descriptor, and closes it. */
export const enterCalls = (descriptor: number): readonly SystemCall[] => [
  { name: "setns", args: [descriptor, 0], failure: "could not enter a namespace of the program" },
  closeCall(descriptor),
];

/** Closes a descriptor. */
export const closeCall = (descriptor: number): SystemCall => ({
  name: "close",
  args: [descriptor],
  failure: "could not close a descriptor",
});

/** Reports a slot on its gate, and closes its claim, see `ShimRequest.slot`. */
export const reportCalls: readonly SystemCall[] = [
  { name: "write", args: [6, "staged\n", 7], failure: "could not report the slot" },
  closeCall(7),
];

/** Changes to a user without capabilities, now or later. */
export function userCalls({ uid, gid, groups = [] }: UserIds & { readonly groups?: readonly number[] }): readonly SystemCall[] {
  const failure = "could not drop privileges";
  const list = Buffer.alloc(4 * groups.length);
  for (const [index, group] of groups.entries()) list.writeUInt32LE(group, 4 * index);
  const bounds = Array.from(
    { length: capabilityCount },
    (_, capability): SystemCall => ({
      ...{ name: "prctl", args: [dropFromBounds, capability, 0, 0, 0] },
      ...{ failure, accepts: EINVAL },
    }),
  );
  return [
    ...bounds,
    { name: "setgroups", args: groups.length === 0 ? [0, 0] : [groups.length, list], failure },
    { name: "setresgid", args: [gid, gid, gid], failure },
    { name: "setresuid", args: [uid, uid, uid], failure },
    { name: "capset", args: [capabilityHeader, Buffer.alloc(24)], failure },
    { name: "prctl", args: [setNoNewPrivileges, 1, 0, 0, 0], failure },
  ];
}
