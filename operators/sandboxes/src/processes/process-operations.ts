import { isJsonObject } from "@keelson/api-machinery";
import { isSignal, type TerminalSize } from "@keelson/execution";
import { isTerminalSize } from "../protocol/exec-frames.ts";

/* Operations on the processes of a sandbox: what the operator asks an agent. */

/** A command to start alongside the program of a sandbox. */
export interface ProcessStart {
  readonly kind: "start";
  readonly processId: string;
  readonly command: readonly [string, ...string[]];
  readonly env: Readonly<Record<string, string>>;
  /** Default: the sandbox's. */
  readonly workingDir?: string;
  /** A name in the sandbox's root, a uid or uid:gid. Default: the sandbox's. */
  readonly user?: string;
  readonly terminal?: TerminalSize;
  /** Whether standard input stays open for `input`. */
  readonly hasInput: boolean;
  /** Kills the process after this time. 0: never. */
  readonly timeoutMs: number;
  /** Kills the process once nothing has followed its output for this time, and drops no output. 0: it runs in the background. */
  readonly maxUnattendedMs: number;
}

/** One operation. `list` is answered with all processes of the sandbox, the others with one. */
export type ProcessOperation =
  | ProcessStart
  | { readonly kind: "list" }
  /** Writes base64 `data` at position `offset` of the input. */
  | {
      readonly kind: "input";
      readonly processId: string;
      readonly offset: number;
      readonly data: string;
      readonly isEnd: boolean;
    }
  | { readonly kind: "signal"; readonly processId: string; readonly signal: NodeJS.Signals }
  | { readonly kind: "resize"; readonly processId: string; readonly size: TerminalSize };

/** A process as its agent reports it. */
export interface ProcessStatus {
  readonly processId: string;
  readonly command: readonly string[];
  /** `timed-out` and `abandoned`: killed after its `timeoutMs` or `maxUnattendedMs`. */
  readonly state: "running" | "exited" | "timed-out" | "abandoned";
  /** 128 + n for a signal. */
  readonly exitCode?: number;
  /** Milliseconds since the epoch. */
  readonly startedMs: number;
  readonly outputBytes: number;
  /** Bytes of input accepted so far. */
  readonly inputBytes: number;
}

/** Answer to an operation. */
export interface ProcessResult {
  readonly processes: readonly ProcessStatus[];
}

/** Maximum input per operation. */
export const maxInputBytes = 512 * 1024;

const idPattern = /^[A-Za-z0-9_-]{1,64}$/;

/** Whether a text is the id of a process. */
export const isProcessId = (value: unknown): value is string => typeof value === "string" && idPattern.test(value);

const isCount = (value: unknown): value is number => Number.isSafeInteger(value) && Number(value) >= 0;
const isText = (value: unknown): value is string => typeof value === "string" && !value.includes("\0");
const isNonEmpty = (command: readonly string[]): command is readonly [string, ...string[]] =>
  command[0] !== undefined && command[0] !== "";

/** Parses the body of a request. Undefined if it is invalid: the operator has validated what its callers sent. */
export function parseProcessOperation(value: unknown): ProcessOperation | undefined {
  if (!isJsonObject(value)) return undefined;
  if (value.kind === "list") return { kind: "list" };
  const { kind, processId, offset, data, isEnd, signal, size } = value;
  if (!isProcessId(processId)) return undefined;
  if (kind === "start") return parseStart(processId, value);
  if (kind === "signal") return isSignal(signal) ? { kind, processId, signal } : undefined;
  if (kind === "resize") return isTerminalSize(size) ? { kind, processId, size } : undefined;
  if (kind !== "input" || !isCount(offset) || typeof data !== "string") return undefined;
  return { kind, processId, offset, data, isEnd: isEnd === true };
}

function parseStart(processId: string, value: Readonly<Record<string, unknown>>): ProcessStart | undefined {
  const { command, env, workingDir, user, terminal, hasInput, timeoutMs, maxUnattendedMs } = value;
  if (!Array.isArray(command) || !command.every(isText) || !isNonEmpty(command)) return undefined;
  if (!isJsonObject(env) || !isCount(timeoutMs) || !isCount(maxUnattendedMs)) return undefined;
  if (workingDir !== undefined && !isText(workingDir)) return undefined;
  if (user !== undefined && !isText(user)) return undefined;
  if (terminal !== undefined && !isTerminalSize(terminal)) return undefined;
  const variables = Object.entries(env).filter((entry): entry is [string, string] => isText(entry[1]));
  return {
    ...{ kind: "start", processId, command, timeoutMs, maxUnattendedMs },
    env: Object.fromEntries(variables),
    hasInput: hasInput === true,
    ...(workingDir !== undefined && { workingDir }),
    ...(user !== undefined && { user }),
    ...(terminal !== undefined && { terminal }),
  };
}
