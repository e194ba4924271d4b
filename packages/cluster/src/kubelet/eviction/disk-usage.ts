import { type ChildProcessByStdio, spawn } from "node:child_process";
import { existsSync } from "node:fs";
import type { Readable, Writable } from "node:stream";
import type { Clock } from "@keelson/api-machinery/time";

/** What is known of some paths after a measurement. */
export interface Measurement {
  /** Bytes on the disk and the time it took to count them, by path. Paths that do not exist use nothing. */
  readonly measured: ReadonlyMap<string, { readonly bytes: number; readonly tookMs: number }>;
  /** The path that was being counted when the time was over. */
  readonly slowest?: string;
  /** Existing paths that could not be counted, although there was time. */
  readonly failure?: MeasurementFailure;
}

/** Why paths could not be counted. */
export interface MeasurementFailure {
  readonly paths: readonly string[];
  /** The exit code or signal, and the beginning of what the program wrote to its standard error. */
  readonly reason: string;
}

/**
 * Counts the blocks of files below paths, see {@link measureDiskUsage}, or the files. Aborting `signal` ends the count, and rejects with the
 * reason.
 */
export type MeasureDiskUsage = (paths: readonly string[], timeoutMs: number, signal?: AbortSignal) => Promise<Measurement>;

/** Maximum length of a record: a size and a path. */
const maxOutputBytes = 5_000;
/** Maximum length of the standard error output that is kept. */
const maxErrorOutputLength = 500;
/** How long du may outlive its time limit if this process cannot end it, because it was killed. */
const graceMs = 30_000;

/**
 * Counts the space that files below these paths occupy, one path after another, by du(1): Pods can create more files than this process could
 * read without slowing down. Sparse files count with what they occupy, and other file systems below a path do not count. Rejects if the
 * program cannot be started.
 *
 * @param unit `files` counts files instead of bytes. Default: `bytes`.
 */
export function measureDiskUsage(clock: Clock, unit: "bytes" | "files" = "bytes"): MeasureDiskUsage {
  return async (paths, timeoutMs, signal) => {
    signal?.throwIfAborted();
    const measured = new Map<string, { readonly bytes: number; readonly tookMs: number }>();
    if (paths.length === 0) return { measured };
    let at = clock.monotonic();
    const add = (record: string): void => {
      const [bytes, path] = record.split(/\t(.*)/s);
      const now = clock.monotonic();
      if (path !== undefined) measured.set(path, { bytes: Number(bytes), tookMs: now - at });
      at = now;
    };
    const { isOver, reason } = await runDu(paths, { clock, unit, timeoutMs, signal, add });
    signal?.throwIfAborted();
    const missing = paths.filter((path) => !measured.has(path));
    const [slowest] = missing;
    if (isOver) return { measured, ...(slowest !== undefined && { slowest }) };
    // A path may have been removed in the meantime.
    const failed = missing.filter((path) => existsSync(path));
    return { measured, ...(failed.length > 0 && { failure: { paths: failed, reason } }) };
  };
}

interface DuRun {
  readonly clock: Clock;
  readonly unit: "bytes" | "files";
  readonly timeoutMs: number;
  readonly signal: AbortSignal | undefined;
  /** Receives `BYTES\tPATH`. */
  readonly add: (record: string) => void;
}

interface DuEnd {
  /** Whether the time was over. */
  readonly isOver: boolean;
  readonly reason: string;
}

/** Resolves when du has exited. */
function runDu(paths: readonly string[], { clock, unit, timeoutMs, signal, add }: DuRun): Promise<DuEnd> {
  return new Promise((resolve, reject) => {
    const child = spawnDu(unit, timeoutMs);
    let isOver = false;
    let errorOutput = "";
    // timeout(1) passes SIGTERM on to du.
    const end = (): void => void child.kill("SIGTERM");
    const timer = clock.setTimer(timeoutMs, () => {
      isOver = true;
      end();
    });
    const release = (): void => {
      timer.cancel();
      signal?.removeEventListener("abort", end);
    };
    signal?.addEventListener("abort", end, { once: true });
    readRecords(child.stdout, add);
    child.stderr.setEncoding("utf8");
    child.stderr.on("data", (text: string) => {
      if (errorOutput.length < maxErrorOutputLength) errorOutput = (errorOutput + text).slice(0, maxErrorOutputLength);
    });
    child.stdin.on("error", () => {});
    child.on("error", (error) => {
      release();
      reject(error);
    });
    child.on("close", (code, killedBy) => {
      release();
      const exit = killedBy === null ? `exit code ${code ?? 0}` : `signal ${killedBy}`;
      resolve({ isOver, reason: errorOutput === "" ? exit : `${exit}: ${errorOutput.trim()}` });
    });
    child.stdin.end(paths.map((path) => `${path}\0`).join(""));
  });
}

function spawnDu(unit: DuRun["unit"], timeoutMs: number): ChildProcessByStdio<Writable, Readable, Readable> {
  const bound = ["--kill-after=5", String(Math.ceil((timeoutMs + graceMs) / 1000))];
  const counted = unit === "bytes" ? "--block-size=1" : "--inodes";
  const du = ["du", "--summarize", "--one-file-system", counted, "--null", "--files0-from=-"];
  return spawn("timeout", [...bound, "nice", "-n", "10", ...du], { stdio: ["pipe", "pipe", "pipe"] });
}

function readRecords(stdout: Readable, add: (record: string) => void): void {
  let rest = "";
  stdout.setEncoding("utf8");
  stdout.on("data", (text: string) => {
    const records = (rest + text).split("\0");
    rest = (records.pop() ?? "").slice(0, maxOutputBytes);
    for (const record of records) add(record);
  });
}
