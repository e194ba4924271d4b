import { readdir, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { type Clock, sleep } from "@keelson/api-machinery/time";
import { AgentError, type LogSource } from "@keelson/middleware-agent";
import { gapAfter, parseSegment } from "../log/log-position.ts";
import type { ServerFiles } from "../server/server-files.ts";
import { freeBytesOf, spaceProblem } from "./volume-space.ts";

const pollMs = 20;
const wantedSuffix = ".wanted";

/** Gives a recovering server the segments that its restore command asks for, one after the other. */
export class LogFeeder {
  readonly #files: ServerFiles;
  readonly #folder: string;
  readonly #log: LogSource | undefined;
  readonly #clock: Clock;
  readonly #freeBytes: () => Promise<number>;
  #last: number | undefined;
  #isStopped = false;

  constructor(files: ServerFiles, log: LogSource | undefined, clock: Clock, freeBytes = () => freeBytesOf(files.home)) {
    this.#files = files;
    this.#folder = files.path("log");
    this.#log = log;
    this.#clock = clock;
    this.#freeBytes = freeBytes;
  }

  stop(): void {
    this.#isStopped = true;
  }

  /** Runs until it is stopped. Rejects if a file cannot be read; the server then ends. */
  async run(): Promise<void> {
    while (!this.#isStopped) {
      const names = await readdir(this.#folder);
      const wanted = names.flatMap((name) => (name.endsWith(wantedSuffix) ? name.slice(0, -wantedSuffix.length) : []));
      for (const name of wanted) await this.#answer(name);
      await sleep(this.#clock, pollMs);
    }
  }

  /** The first file that is missing between the last one that was used and later ones of its timeline. */
  gapOf(timeline: number): string | undefined {
    if (this.#log === undefined || this.#last === undefined) return undefined;
    return gapAfter(this.#last, timeline, this.#log.names);
  }

  async #answer(name: string): Promise<void> {
    const path = join(this.#folder, name);
    try {
      // At the end of its recovery the server asks for the last segment again.
      await rm(path + wantedSuffix);
      if (this.#log === undefined || !this.#log.names.has(name)) {
        await writeFile(`${path}.missing`, "");
        return;
      }
      const problem = spaceProblem(await this.#freeBytes(), 0);
      if (problem !== undefined) throw new AgentError("SnapshotFailed", `${problem}: the log makes it grow`);
      await writeFile(`${path}.new`, this.#log.read(name), { mode: 0o600 });
      await this.#files.own(`${path}.new`);
      await rename(`${path}.new`, path);
      this.#last = Math.max(parseSegment(name)?.number ?? 0, this.#last ?? 0);
    } catch (error) {
      await writeFile(join(this.#folder, "failed"), "").catch(() => undefined);
      throw error;
    }
  }
}
