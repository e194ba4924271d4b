import { existsSync, realpathSync } from "node:fs";
import { mkdir, readdir, rm } from "node:fs/promises";
import { join } from "node:path";
import type { Logger } from "@keelson/controller";
import type { BindMount } from "@keelson/execution";
import { removeTree } from "@keelson/execution/files";
import { VolumeError } from "./volume-error.ts";
import { checkContainer, containerIds, hostMounts, volumeMountsOf, volumeSupportProblem } from "./volume-host.ts";
import { createImage, VolumeMounts } from "./volume-image.ts";
import { isExclusive, type VolumeMount, volumeIdPattern } from "./volume-mount.ts";
import { chownFiles, type IdRange } from "./volume-owner.ts";
import { imageOf, readRecord, readSizes, recordOf, requireRecord, type VolumeRecord, writeRecord } from "./volume-record.ts";

/** Options of {@link AgentVolumes}. */
export interface AgentVolumesOptions {
  /** Directory of the volumes. Agents of one machine may share it. */
  readonly dir: string;
  /** The agent's own directory. */
  readonly agentDir: string;
  /** Driver of the sandboxes. */
  readonly driver: string;
  readonly log: Logger;
}

/**
 * The volumes of an agent: files with a file system each, mounted while sandboxes use them.
 *
 * **Guarantees**: a volume is used by one sandbox that can write to it, or by any number that cannot; it is not deleted while it is used; a
 * crash at any point leaves its files as they were, and what was interrupted is repeated; it is not used while programs of an earlier agent
 * may have it.
 */
export class AgentVolumes {
  readonly #options: AgentVolumesOptions;
  /** By volume: the sandboxes that use it. */
  readonly #users = new Map<string, Map<string, VolumeMount>>();
  /** By volume: its last operation. Operations on a volume follow one another. */
  readonly #last = new Map<string, Promise<unknown>>();
  readonly #mounts: VolumeMounts;
  #ids: readonly string[] = [];
  #sizes: Readonly<Record<string, number>> = {};

  private constructor(options: AgentVolumesOptions) {
    this.#options = options;
    // containerd does not see the mounts of an agent's own namespace.
    this.#mounts = (options.driver === "containerd" ? hostMounts() : undefined) ?? new VolumeMounts();
  }

  /** Opens the volumes of a directory. `users`: the sandboxes that run, with their volumes. All other volumes are unmounted. */
  static async open(options: AgentVolumesOptions, users: ReadonlyMap<string, readonly VolumeMount[]>): Promise<AgentVolumes> {
    const volumes = new AgentVolumes(options);
    await mkdir(options.dir, { recursive: true, mode: 0o711 });
    for (const [sandboxId, mounts] of users) volumes.#use(sandboxId, mounts);
    await mkdir(volumeMountsOf(options.agentDir), { recursive: true, mode: 0o700 });
    await volumes.#list();
    const isUsed = (id: string): boolean => volumes.#usersOf(id).size > 0;
    // The mounts of an agent in a container end with it.
    await Promise.all(
      volumes.#ids.map(async (id) => {
        try {
          await (isUsed(id) ? volumes.#next(id, () => volumes.#mount(id)) : volumes.#release(id));
        } catch (error) {
          // The agent must not fail with one volume.
          options.log.warn({ err: error, volumeId: id }, "could not adopt a volume");
        }
      }),
    );
    return volumes;
  }

  /** The ids of the volumes in the directory. */
  get ids(): readonly string[] {
    return this.#ids;
  }

  /** Sizes of the volumes in bytes, by id; without those whose record is damaged. */
  get sizes(): Readonly<Record<string, number>> {
    return this.#sizes;
  }

  /** Why this agent cannot have volumes. */
  get problem(): string | undefined {
    return volumeSupportProblem(this.#options.driver);
  }

  /** Creates a volume, unless it exists. **Errors**: {@link VolumeError}. */
  create(volumeId: string, sizeBytes: number): Promise<void> {
    const { problem } = this;
    const { agentDir } = this.#options;
    if (problem !== undefined) return Promise.reject(new VolumeError("Unsupported", problem));
    return this.#next(volumeId, async () => {
      const folder = this.#folder(volumeId);
      if (!existsSync(imageOf(folder))) {
        await mkdir(folder, { recursive: true, mode: 0o700 });
        // The file comes last: with it, the volume exists.
        await writeRecord(recordOf(folder), { sizeBytes, agentDir, owners: [] });
        await createImage(imageOf(folder), sizeBytes);
      }
      await this.#list();
    });
  }

  /** Grows a volume to a size, even while sandboxes use it. Does nothing if it has that size. **Errors**: {@link VolumeError}. */
  resize(volumeId: string, sizeBytes: number): Promise<void> {
    return this.#next(volumeId, async () => {
      const folder = this.#folder(volumeId);
      const { sizeBytes: present } = await requireRecord(folder);
      if (present >= sizeBytes) return;
      const problem = await this.#otherAgentProblem(folder);
      if (problem !== undefined) throw new VolumeError("InUse", problem);
      const isUsed = (): boolean => this.#usersOf(volumeId).size > 0;
      try {
        if (isUsed()) await this.#mount(volumeId);
        const record = await this.#repaired(folder);
        await this.#mounts.grow(imageOf(folder), sizeBytes, () =>
          writeRecord(recordOf(folder), { ...record, isGrowing: true }),
        );
        // The record comes last: what was interrupted is repeated.
        await writeRecord(recordOf(folder), { ...record, sizeBytes });
      } finally {
        if (!isUsed()) await this.#mounts.unmount(this.#mountFolder(volumeId));
      }
      await this.#list();
    });
  }

  /** Deletes a volume, if it exists. **Errors**: {@link VolumeError} `InUse`. */
  delete(volumeId: string): Promise<void> {
    return this.#next(volumeId, async () => {
      const [user] = this.#usersOf(volumeId).keys();
      if (user !== undefined) throw new VolumeError("InUse", `sandbox ${user} uses the volume`);
      const folder = this.#folder(volumeId);
      const problem = await this.#otherAgentProblem(folder);
      if (problem !== undefined) throw new VolumeError("InUse", problem);
      await this.#mounts.unmount(this.#mountFolder(volumeId));
      // Without its file it is no longer a volume, if this is interrupted.
      await rm(imageOf(folder), { force: true });
      await removeTree(folder);
      await this.#list();
    });
  }

  /** Why a sandbox cannot use these volumes now; undefined if it can. */
  findProblem(mounts: readonly VolumeMount[]): string | undefined {
    if (mounts.length > 0 && this.problem !== undefined) return this.problem;
    for (const mount of mounts) {
      if (!this.#ids.includes(mount.volumeId)) return `volume ${mount.name} not found on this agent`;
      for (const [sandboxId, other] of this.#usersOf(mount.volumeId))
        if (isExclusive(mount, other)) return `volume ${mount.name} is in use by sandbox ${sandboxId}`;
    }
    return undefined;
  }

  /**
   * Reserves volumes for a sandbox and mounts them. Call {@link findProblem} before, in the same step. **Errors**: {@link VolumeError}; then
   * nothing is reserved.
   */
  async attach(sandboxId: string, mounts: readonly VolumeMount[]): Promise<readonly BindMount[]> {
    this.#use(sandboxId, mounts);
    try {
      await Promise.all(mounts.map((mount) => this.#next(mount.volumeId, () => this.#mount(mount.volumeId))));
    } catch (error) {
      this.detach(sandboxId);
      throw error;
    }
    return mounts.map(({ volumeId, mountPath, readOnly }) => ({
      source: this.#mountFolder(volumeId),
      target: mountPath,
      ...(readOnly !== true && { isWritable: true }),
    }));
  }

  /** Gives the volumes that a sandbox can write to its user. It must not run yet. */
  async give(sandboxId: string, to: IdRange): Promise<void> {
    const writable = this.#mountsOf(sandboxId).filter(({ readOnly }) => readOnly !== true);
    await Promise.all(writable.map(({ volumeId }) => this.#next(volumeId, () => this.#give(volumeId, to))));
  }

  /** Gives a sandbox its volumes when its container has been created, with the process `pid`. **Errors**: {@link VolumeError}. */
  async giveContainer(sandboxId: string, pid: number): Promise<void> {
    const mounts = this.#mountsOf(sandboxId);
    if (mounts.length === 0) return;
    checkContainer(pid, mounts);
    await this.give(sandboxId, containerIds(pid));
  }

  /** Frees the volumes of a sandbox that no longer runs. They are unmounted in the background. */
  detach(sandboxId: string): void {
    for (const [volumeId, users] of this.#users) {
      if (!users.delete(sandboxId)) continue;
      this.#release(volumeId).catch((error: unknown) =>
        this.#options.log.warn({ err: error, volumeId }, "could not unmount a volume"),
      );
    }
  }

  /** Waits for what is in progress. Volumes of sandboxes that still run stay mounted. */
  async close(): Promise<void> {
    await Promise.allSettled(this.#last.values());
  }

  #folder(volumeId: string): string {
    if (!volumeIdPattern.test(volumeId)) throw new VolumeError("NotFound", "volumeId: must be a UUID");
    return join(this.#options.dir, volumeId);
  }

  /** Where this agent mounts a volume. */
  #mountFolder(volumeId: string): string {
    return join(realpathSync(volumeMountsOf(this.#options.agentDir)), volumeId);
  }

  #mountsOf(sandboxId: string): readonly VolumeMount[] {
    return [...this.#users.values()].flatMap((users) => users.get(sandboxId) ?? []);
  }

  #usersOf(volumeId: string): ReadonlyMap<string, VolumeMount> {
    return this.#users.get(volumeId) ?? new Map<string, VolumeMount>();
  }

  #use(sandboxId: string, mounts: readonly VolumeMount[]): void {
    for (const mount of mounts) {
      const users = this.#users.get(mount.volumeId) ?? new Map<string, VolumeMount>();
      this.#users.set(mount.volumeId, users.set(sandboxId, mount));
    }
  }

  async #list(): Promise<void> {
    const names = await readdir(this.#options.dir);
    this.#ids = names.filter((name) => volumeIdPattern.test(name) && existsSync(imageOf(join(this.#options.dir, name)))).sort();
    this.#sizes = await readSizes(this.#options.dir, this.#ids);
  }

  /** Runs an operation after the others on the volume. */
  async #next<T>(volumeId: string, operation: () => Promise<T>): Promise<T> {
    const before = this.#last.get(volumeId);
    const run = (async () => {
      await before?.catch(() => {});
      return operation();
    })();
    this.#last.set(volumeId, run);
    try {
      return await run;
    } finally {
      if (this.#last.get(volumeId) === run) this.#last.delete(volumeId);
    }
  }

  async #mount(volumeId: string): Promise<void> {
    const folder = this.#folder(volumeId);
    const problem = await this.#otherAgentProblem(folder);
    if (problem !== undefined) throw new VolumeError("InUse", `volume ${volumeId}: ${problem}`);
    const { agentDir } = this.#options;
    // It may have been deleted since the sandbox was accepted.
    if (!existsSync(imageOf(folder))) throw new VolumeError("NotFound", `volume ${volumeId} not found on this agent`);
    const record = await this.#repaired(folder);
    if (record.agentDir !== agentDir) await writeRecord(recordOf(folder), { ...record, agentDir });
    await mkdir(this.#mountFolder(volumeId), { recursive: true, mode: 0o700 });
    await this.#mounts.mount(imageOf(folder), this.#mountFolder(volumeId));
  }

  /** The record of a volume, repaired first if its growth was interrupted. */
  async #repaired(folder: string): Promise<VolumeRecord> {
    const { isGrowing, ...record } = await requireRecord(folder);
    if (isGrowing !== true) return record;
    await this.#mounts.repair(imageOf(folder));
    await writeRecord(recordOf(folder), record);
    return record;
  }

  async #give(volumeId: string, to: IdRange): Promise<void> {
    const [folder, mounted] = [this.#folder(volumeId), this.#mountFolder(volumeId)];
    const record = await requireRecord(folder);
    const [owner, ...others] = record.owners;
    if (owner?.first === to.first && owner.size === to.size && others.length === 0) return;
    if (owner === undefined) {
      // As a work directory: every user of an image can write to it.
      await this.#mounts.run("chmod", ["1777", mounted], "prepare the volume");
      await this.#mounts.run("rm", ["-rf", join(mounted, "lost+found")], "prepare the volume");
    }
    await writeRecord(recordOf(folder), { ...record, owners: [...record.owners, to] });
    await chownFiles(this.#mounts, mounted, record.owners, to);
    await writeRecord(recordOf(folder), { ...record, owners: [to] });
  }

  /** Why programs of another agent may have a volume mounted. */
  async #otherAgentProblem(folder: string): Promise<string | undefined> {
    const record = await readRecord(recordOf(folder));
    if (record === undefined || record.agentDir === this.#options.agentDir || !existsSync(record.agentDir)) return undefined;
    return "programs of an earlier agent may still be using it; retry once they have stopped";
  }

  /** Unmounts a volume that no sandbox uses. */
  #release(volumeId: string): Promise<void> {
    return this.#next(volumeId, async () => {
      if (this.#usersOf(volumeId).size > 0) return;
      this.#users.delete(volumeId);
      await this.#mounts.unmount(this.#mountFolder(volumeId));
    });
  }
}
