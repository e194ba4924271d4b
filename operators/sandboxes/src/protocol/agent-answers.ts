import { sandboxIdPattern } from "../api/names.ts";
import type { FolderReport } from "../files/folder-changes.ts";
import { type FileInfo, type FileResult, type Inode, isInode, maxEntries, maxPathBytes } from "../files/file-operations.ts";
import type { ProcessResult, ProcessStatus } from "../processes/process-operations.ts";
import { volumeIdPattern } from "../volumes/volume-mount.ts";
import type { ExecEnd } from "./exec-frames.ts";
import type { AgentStatus, CreateAnswer, FolderWatchLine, SandboxStatus, SandboxUsage } from "./protocol.ts";
import {
  asInvalidAnswer,
  type Check,
  clamped,
  elapsed,
  flag,
  integer,
  itemsInSteps,
  list,
  map,
  message,
  nullable,
  object,
  oneOf,
  readAnswer,
  text,
} from "./untrusted.ts";

/*
 * What an agent may send. It runs untrusted programs, so one that was taken over can send anything. It must harm neither the sandboxes of
 * other agents nor the callers that its answers are passed on to.
 */

/** Maximum number of sandboxes and of volumes of an agent. */
const maxItems = 10_000;
const maxMessageLength = 4096;
/** Milliseconds since the epoch of the last moment that a date can have. */
const lastMomentMs = 8.64e15;

const count = integer(0);
const moment = integer(0, lastMomentMs);
const exitCode = integer(-1, 2 ** 31 - 1);
const port = integer(1, 65_535);
const startKind = oneOf(["cold", "shell", "image"]);
const slots = object({ desired: count, ready: count }, {});

const warmStatus = object(
  {
    shells: slots,
    images: slots,
    starts: object({ cold: count, shell: count, image: count }, {}),
    refills: object({ count, totalMs: elapsed }, {}),
  },
  { problem: message(maxMessageLength) },
);

const sandboxStatus: Check<SandboxStatus> = object(
  {
    sandboxId: text(36, sandboxIdPattern),
    claimUid: text(253),
    claimName: text(253),
    namespace: text(253),
    phase: oneOf(["creating", "running", "stopped", "failed", "terminated", "terminating"]),
    message: message(maxMessageLength),
    createdAt: integer(0, lastMomentMs / 1000),
    ports: list(port, 1024),
  },
  {
    exitCode,
    openPorts: list(port, 1024),
    expiresAtMs: nullable(moment),
    paused: flag,
    idleSinceMs: moment,
    denied: object({ count, destinations: list(message(300), 256) }, {}),
  },
);

/** Checks a status. Throws `InvalidAnswer`. */
export const agentStatusOf = (value: unknown): AgentStatus =>
  readAnswer(() => ({ ...checkStatus(value), ...checkSandboxes(value) }));

/** Like {@link agentStatusOf}, with a call of `pause` before each sandbox, whose promise is awaited. Rejects with `InvalidAnswer`. */
export async function agentStatusInSteps(value: unknown, pause: () => Promise<void> | undefined): Promise<AgentStatus> {
  try {
    const status = checkStatus(value);
    const { sandboxStatuses } = checkSandboxList(value);
    return { ...status, sandboxStatuses: await itemsInSteps("sandboxStatuses", sandboxStatus, sandboxStatuses, pause) };
  } catch (error) {
    return asInvalidAnswer(error);
  }
}

/** A status without its sandboxes, each of which takes much longer than its other parts. */
const checkStatus: Check<Omit<AgentStatus, "sandboxStatuses">> = object(
  {
    agentId: text(253),
    nodeName: text(253),
    capacity: integer(0, maxItems),
    allocated: integer(0, maxItems),
    images: list(text(1024), maxItems),
  },
  {
    volumes: list(text(36, volumeIdPattern), maxItems),
    volumeSizes: map(text(36, volumeIdPattern), count, maxItems),
    warm: warmStatus,
  },
);

const checkSandboxes = object({ sandboxStatuses: list(sandboxStatus, maxItems) }, {});
const checkSandboxList = object({ sandboxStatuses: list<unknown>((value) => value, maxItems) }, {});

/** Checks the answer to a create. Throws `InvalidAnswer`. */
export const createAnswerOf = (value: unknown): CreateAnswer => readAnswer(() => checkCreate(value));

const checkCreate: Check<CreateAnswer> = object(
  { success: flag },
  {
    sandboxId: text(253),
    message: message(maxMessageLength),
    createdAt: integer(0, lastMomentMs / 1000),
    rejected: flag,
    startMs: elapsed,
    start: startKind,
  },
);

/** A name that stays in its directory: callers create local files with it. */
const fileName = text(maxPathBytes, /^(?!\.{1,2}$)[^/\0]+$/);

const fileFields = {
  type: oneOf(["file", "directory", "symlink", "other"]),
  // The sandbox sets both, to more than a date or a safe integer has.
  sizeBytes: clamped(0, Number.MAX_SAFE_INTEGER),
  mode: integer(0, 0o7777),
  modifiedMs: clamped(-lastMomentMs, lastMomentMs),
};
const entry: Check<FileInfo> = object({ name: fileName, ...fileFields }, { target: text(maxPathBytes) });
/** The root is `/`. */
const file: Check<FileInfo> = object(
  { name: text(maxPathBytes, /^(?:\/|(?!\.{1,2}$)[^/\0]+)$/), ...fileFields },
  { target: text(maxPathBytes) },
);

/** Agents of earlier versions rounded large inodes, and do not accept them in requests: a file with one is read without it. */
const inode: Check<Inode | undefined> = (value) =>
  isInode(value) ? value : elapsed(value) > Number.MAX_SAFE_INTEGER ? undefined : count(value);

/** Checks the result of a file operation, without its data. Throws `InvalidAnswer`. */
export const fileResultOf = (value: unknown): Omit<FileResult, "data"> => readAnswer(() => checkFile(value));

/** Like {@link fileResultOf}, with a call of `pause` before each entry, whose promise is awaited. Rejects with `InvalidAnswer`. */
export async function fileResultInSteps(
  value: unknown,
  pause: () => Promise<void> | undefined,
): Promise<Omit<FileResult, "data">> {
  try {
    const { entries } = checkEntryList(value);
    const rest = checkFile(entries === undefined ? value : { ...Object(value), entries: undefined });
    return entries === undefined ? rest : { ...rest, entries: await itemsInSteps("entries", entry, entries, pause) };
  } catch (error) {
    return asInvalidAnswer(error);
  }
}

const checkEntryList = object({}, { entries: list<unknown>((value) => value, maxEntries) });
const checkFile: Check<Omit<FileResult, "data">> = object({}, { info: file, entries: list(entry, maxEntries), inode });

const change = object(
  {
    type: oneOf(["create", "write", "remove", "rename", "chmod"]),
    path: text(2 * maxPathBytes),
    isDirectory: flag,
  },
  {},
);

const report: Check<FolderReport> = object({ changes: list(change, 1_000_000), isLossy: flag }, {});

/** Checks a line of a watch. Throws `InvalidAnswer`. */
export function folderLineOf(value: unknown): FolderWatchLine {
  return readAnswer(() => {
    const { hasEnded } = object({}, { hasEnded: flag })(value);
    return hasEnded === true ? { hasEnded } : report(value);
  });
}

const amounts = { cpuMillis: count, memoryBytes: count, pids: count, diskBytes: count };
const usage: Check<SandboxUsage> = object(
  { sandboxId: text(36, sandboxIdPattern), cpuMillis: count, memoryBytes: count, pids: count, limits: object({}, amounts) },
  { diskBytes: count },
);
const checkUsages = object({ usages: list(usage, 1000) }, {});

/** Checks what sandboxes use. Throws `InvalidAnswer`. */
export const usagesOf = (value: unknown): readonly SandboxUsage[] => readAnswer(() => checkUsages(value).usages);

const process: Check<ProcessStatus> = object(
  {
    processId: text(64),
    command: list(text(2 << 20), 100_000),
    state: oneOf(["running", "exited", "timed-out", "abandoned"]),
    startedMs: moment,
    outputBytes: count,
    inputBytes: count,
  },
  { exitCode },
);

/** Checks the result of an operation on processes. Throws `InvalidAnswer`. */
export const processResultOf = (value: unknown): ProcessResult => readAnswer(() => checkProcesses(value));

const checkProcesses: Check<ProcessResult> = object({ processes: list(process, maxItems) }, {});

/** Checks the last frame of a followed process. Throws `InvalidAnswer`. */
export const processStatusOf = (value: unknown): ProcessStatus => readAnswer(() => process(value));

/** Checks the number of bytes in a frame of channel `gap`. Throws `InvalidAnswer`. */
export const lostBytesOf = (value: unknown): number => readAnswer(() => count(value));

/** Checks the last frame of a command. Throws `InvalidAnswer`. */
export const execEndOf = (value: unknown): ExecEnd => readAnswer(() => checkEnd(value));

const checkEnd: Check<ExecEnd> = object({ exitCode }, { message: message(maxMessageLength) });
