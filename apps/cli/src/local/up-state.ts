import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { folderHolder } from "@keelson/execution/files";

/** What `keelson up` publishes about itself in its data directory. */
export interface UpState {
  /** Process that `keelson down` stops. */
  readonly pid: number;
  /** Milliseconds since the epoch. */
  readonly startedAt: number;
  /** Names of the running operators. */
  readonly operators: readonly string[];
  /** What runs, in starting order. */
  readonly components: readonly { readonly name: string; readonly description: string }[];
  /** Addresses by name: `apiserver`, `metrics` and those of the operators' servers. */
  readonly endpoints: Readonly<Record<string, string>>;
}

const fileOf = (dataDir: string): string => join(dataDir, "up.json");

/** Publishes the state of this process. A disk that is full must not keep `keelson up` from starting. */
export function writeUpState(dataDir: string, state: UpState, onError: (error: unknown) => void): void {
  try {
    writeFileSync(fileOf(dataDir), JSON.stringify(state), { mode: 0o600 });
  } catch (error) {
    onError(error);
  }
}

/**
 * The state of the `keelson up` that uses a data directory; undefined if none runs. If it is still starting, or its file is damaged,
 * only the process is known.
 */
export function readUpState(dataDir: string): (Partial<UpState> & { readonly pid: number }) | undefined {
  const pid = folderHolder(dataDir);
  if (pid === undefined) return undefined;
  try {
    const state = JSON.parse(readFileSync(fileOf(dataDir), "utf8")) as Partial<UpState> | null;
    // Written by an earlier process, this one is still starting.
    return state?.pid === pid ? { ...state, pid } : { pid };
  } catch {
    return { pid };
  }
}
