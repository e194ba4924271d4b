import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { mkdir, readdir, rename, rm, stat, utimes } from "node:fs/promises";
import { join } from "node:path";
import { createDeferred } from "@keelson/api-machinery/deferred";
import { type Clock, sleep } from "@keelson/api-machinery/time";
import { ignoreMissing } from "../../identity/ignore-missing.ts";
import { RobotsError } from "../../robots-error.ts";
import type { ArtifactPolicy } from "../policy/robot-policy.ts";
import { type Artifact, describeUrl } from "./artifact.ts";
import { downloadTo, TransferInterrupted } from "./download.ts";
import { settledOrAborted } from "./settled-or-aborted.ts";

/** Delay of the first retry; doubled for each further one. */
const firstRetryMs = 1_000;

/** Maximum delay between two tries. */
const maxRetryMs = 60_000;

/** Number of tries without progress after which a download fails. */
const maxFutileTries = 5;

/** Options of an {@link ArtifactCache}. */
export interface ArtifactCacheOptions {
  /** Created if missing. Only the agent may have access. */
  readonly dir: string;
  readonly policy: ArtifactPolicy;
  readonly clock: Clock;
  /** Returns a number in [0, 1). */
  readonly random: () => number;
}

/**
 * Downloads of artifacts:
 *
 *     <dir>/sha256/<digest>     complete files, verified
 *     <dir>/partial/<key>       interrupted downloads, which the next try continues
 *
 * **Guarantees**: a file is used only if its content has the artifact's digest at that moment, even if it was in the cache. Files in use
 * are not removed. When nothing is in use, the files together are not larger than `policy.cacheBytes`, except for the most recent download
 * while it is used.
 */
export class ArtifactCache {
  readonly #options: ArtifactCacheOptions;
  /** Number of users by file name. */
  readonly #used = new Map<string, number>();
  /** The last user of each download; the next one waits for it. */
  readonly #turns = new Map<string, Promise<void>>();

  constructor(options: ArtifactCacheOptions) {
    this.#options = options;
  }

  /**
   * Fetches an artifact and calls `use` with its file, which must not be changed.
   *
   * **Errors**: {@link RobotsError} with the code `ArtifactForbidden` or `ArtifactFailed`; `signal`'s reason.
   */
  async with(artifact: Artifact, signal: AbortSignal, use: (file: string) => Promise<void>): Promise<void> {
    const key = createHash("sha256")
      .update(`${artifact.sha256 ?? ""} ${artifact.url}`)
      .digest("hex");
    const names = [artifact.sha256 ?? key, key];
    this.#count(names, 1);
    try {
      // Two tasks with the same artifact download it once.
      await this.#inTurn(names[0] ?? key, signal, async () => {
        const file = await this.#fetch(artifact, key, signal);
        await use(file);
        if (artifact.sha256 === undefined) await rm(file, { force: true });
      });
    } finally {
      this.#count(names, -1);
      await this.#evict();
    }
  }

  #count(names: readonly string[], change: number): void {
    for (const name of names) {
      const users = (this.#used.get(name) ?? 0) + change;
      if (users === 0) this.#used.delete(name);
      else this.#used.set(name, users);
    }
  }

  async #inTurn(name: string, signal: AbortSignal, work: () => Promise<void>): Promise<void> {
    const before = this.#turns.get(name) ?? Promise.resolve();
    const turn = createDeferred<void>();
    const last = before.then(() => turn.promise);
    this.#turns.set(name, last);
    try {
      await settledOrAborted(before, signal);
      await work();
    } finally {
      turn.resolve();
      if (this.#turns.get(name) === last) this.#turns.delete(name);
    }
  }

  /** The file with the content of an artifact, from the cache or downloaded. */
  async #fetch(artifact: Artifact, key: string, signal: AbortSignal): Promise<string> {
    const { dir, clock } = this.#options;
    const { sha256 } = artifact;
    const [complete, partial] = [join(dir, "sha256"), join(dir, "partial")];
    for (const folder of [dir, complete, partial]) await mkdir(folder, { recursive: true, mode: 0o700 });
    const draft = join(partial, key);
    if (sha256 === undefined) {
      await this.#download(draft, artifact, signal);
      return draft;
    }
    const file = join(complete, sha256);
    if ((await ignoreMissing(digestOf(file, signal))) !== sha256) {
      await rm(file, { force: true });
      await this.#download(draft, artifact, signal);
      await rename(draft, file);
    }
    const now = new Date(clock.now());
    await utimes(file, now, now);
    return file;
  }

  /** Downloads a file, with retries that continue where the last one stopped. */
  async #download(draft: string, artifact: Artifact, signal: AbortSignal): Promise<void> {
    const { policy, clock } = this.#options;
    const limit = new AbortController();
    const timer = clock.setTimer(policy.timeoutMs, () =>
      limit.abort(
        new RobotsError(
          "ArtifactFailed",
          `${describeUrl(new URL(artifact.url))}: not downloaded within the time that the robot's policy allows`,
        ),
      ),
    );
    try {
      await this.#downloadUntil(draft, artifact, AbortSignal.any([signal, limit.signal]));
    } finally {
      timer.cancel();
    }
  }

  async #downloadUntil(draft: string, { url, sha256 }: Artifact, signal: AbortSignal): Promise<void> {
    const { policy, clock, random } = this.#options;
    let isFresh = false;
    for (let futile = 0; ; ) {
      const before = await sizeOf(draft);
      // Without a digest, a file that changed meanwhile would be mixed with its old content.
      const resumes = sha256 !== undefined && before > 0;
      if (!resumes) isFresh = true;
      try {
        await downloadTo(draft, new URL(url), { policy, clock, resumes, signal });
      } catch (error) {
        signal.throwIfAborted();
        if (!(error instanceof TransferInterrupted)) throw error;
        futile = resumes && (await sizeOf(draft)) > before ? 0 : futile + 1;
        if (futile >= maxFutileTries) throw new RobotsError("ArtifactFailed", error.message, { cause: error });
        const delayMs = Math.min(firstRetryMs * 2 ** Math.max(futile - 1, 0), maxRetryMs);
        await sleep(clock, delayMs * (0.5 + random() / 2), signal);
        continue;
      }
      if (sha256 === undefined) return;
      const found = await digestOf(draft, signal);
      if (found === sha256) return;
      await rm(draft, { force: true });
      if (isFresh)
        throw new RobotsError(
          "ArtifactFailed",
          `${describeUrl(new URL(url))}: its SHA-256 digest is ${found}, expected ${sha256}`,
        );
      // What an earlier try had received does not belong to this file.
      isFresh = true;
    }
  }

  /** Removes the files that were used longest ago, until the rest fits the limit. */
  async #evict(): Promise<void> {
    const { dir, policy } = this.#options;
    const files: { readonly name: string; readonly path: string; readonly bytes: number; readonly usedMs: number }[] = [];
    for (const folder of ["sha256", "partial"]) {
      for (const name of (await ignoreMissing(readdir(join(dir, folder)))) ?? []) {
        const path = join(dir, folder, name);
        const stats = await ignoreMissing(stat(path));
        if (stats !== undefined && !this.#used.has(name)) files.push({ name, path, bytes: stats.size, usedMs: stats.mtimeMs });
      }
    }
    let bytes = files.reduce((sum, each) => sum + each.bytes, 0);
    for (const file of files.sort((a, b) => a.usedMs - b.usedMs)) {
      if (bytes <= policy.cacheBytes) return;
      // A task may have begun to use it since it was listed.
      if (this.#used.has(file.name)) continue;
      await rm(file.path, { force: true });
      bytes -= file.bytes;
    }
  }
}

async function sizeOf(file: string): Promise<number> {
  return (await ignoreMissing(stat(file)))?.size ?? 0;
}

/** **Errors**: the reason of `signal`. */
async function digestOf(file: string, signal: AbortSignal): Promise<string> {
  const hash = createHash("sha256");
  for await (const chunk of createReadStream(file)) {
    signal.throwIfAborted();
    hash.update(chunk as Buffer);
  }
  return hash.digest("hex");
}
