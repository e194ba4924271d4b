import { spawn } from "node:child_process";
import type { Clock } from "@keelson/api-machinery/time";

/** What is known of some paths after a measurement. */
export interface Measurement {
  /** Bytes on the disk and the time it took to count them, by path. Paths that do not exist use nothing. */
  readonly measured: ReadonlyMap<string, { readonly bytes: number; readonly tookMs: number }>;
  /** The path that was being counted when the time was over. */
  readonly slowest?: string;
}

/** Counts the blocks of files below paths, see {@link measureDiskUsage}. */
export type MeasureDiskUsage = (paths: readonly string[], timeoutMs: number) => Promise<Measurement>;

/** The longest output per path: its size and the path itself. */
const maxOutputBytes = 5_000;

/**
 * Counts the space that files below these paths occupy, one path after another, by du(1): Pods can create more files than this process could
 * read without slowing down. Sparse files count with what they occupy, and other file systems below a path do not count. Rejects if du cannot be started.
 */
export function measureDiskUsage(clock: Clock): MeasureDiskUsage {
  return async (paths, timeoutMs) => {
    const measured = new Map<string, { readonly bytes: number; readonly tookMs: number }>();
    if (paths.length === 0) return { measured };
    let at = clock.monotonic();
    const add = (record: string): void => {
      const [bytes, path] = record.split(/\t(.*)/s);
      const now = clock.monotonic();
      if (path !== undefined) measured.set(path, { bytes: Number(bytes), tookMs: now - at });
      at = now;
    };
    const isOver = await runDu(paths, { clock, timeoutMs, add });
    if (!isOver) return { measured };
    const slowest = paths.find((path) => !measured.has(path));
    return { measured, ...(slowest !== undefined && { slowest }) };
  };
}

interface DuRun {
  readonly clock: Clock;
  readonly timeoutMs: number;
  /** Receives `BYTES\tPATH`. */
  readonly add: (record: string) => void;
}

/** Resolves when du has exited, to whether its time was over. */
function runDu(paths: readonly string[], { clock, timeoutMs, add }: DuRun): Promise<boolean> {
  return new Promise((resolve, reject) => {
    // Complaints about files that vanish, or about folders that are too deep, are dropped: there may be any number of them.
    const options = ["--summarize", "--one-file-system", "--block-size=1", "--null", "--files0-from=-"];
    const child = spawn("nice", ["-n", "10", "du", ...options], { stdio: ["pipe", "pipe", "ignore"] });
    let isOver = false;
    let rest = "";
    const timer = clock.setTimer(timeoutMs, () => {
      isOver = true;
      child.kill("SIGKILL");
    });
    child.stdout.setEncoding("utf8");
    child.stdout.on("data", (text: string) => {
      const records = (rest + text).split("\0");
      rest = (records.pop() ?? "").slice(0, maxOutputBytes);
      for (const record of records) add(record);
    });
    child.stdin.on("error", () => {});
    child.on("error", (error) => {
      timer.cancel();
      reject(error);
    });
    child.on("close", () => {
      timer.cancel();
      resolve(isOver);
    });
    child.stdin.end(paths.map((path) => `${path}\0`).join(""));
  });
}
