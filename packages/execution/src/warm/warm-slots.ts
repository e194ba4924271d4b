import { mkdir, readdir, writeFile } from "node:fs/promises";
import { basename, join } from "node:path";
import {
  ExecutionError,
  type ProgramSpec,
  type StartKind,
  type WarmPlan,
  type WarmPrograms,
  type WarmStatus,
} from "../driver.ts";
import { describeError } from "../files/file-error.ts";
import type { LaunchRequest, PreparedSlot } from "../process/launcher.ts";
import { discardFolder, type ProgramFolder, programFolder, tagFile } from "../program/files/program-folder.ts";
import { readErrorTail } from "../program/files/program-files.ts";
import type { Deadline } from "../program/deadlines.ts";
import type { Supervision } from "../program/supervision.ts";
import { fits, type SlotShape, shapeKey, shapesOf } from "./warm-plan.ts";

/** A slot that is ready. */
export interface ReadySlot {
  readonly shape: SlotShape;
  readonly folder: ProgramFolder;
  readonly prepared: PreparedSlot;
}

/** What {@link WarmSlots} needs. */
export interface WarmSlotsOptions extends Omit<Supervision, "forget" | "rotations"> {
  /** Directory of the slots, on the file system of the programs' directories. */
  readonly dir: string;
  readonly random: () => number;
}

/** A shape whose slots fail. */
interface Failure {
  /** Why the last one failed; undefined while another one is ready. */
  readonly problem: string | undefined;
  readonly retryMs: number;
  /** By the monotonic clock. */
  readonly retryAtMs: number;
}

/** Slots that are prepared at the same time. More would compete with the requests that they are for. */
const maxRefills = 2;
/** Leaves the processor to the program that has claimed a slot. */
const refillDelayMs = 5;
const minRetryMs = 500;
const maxRetryMs = 60_000;

/**
 * The slots of one driver.
 *
 * **Guarantees**: a slot is claimed once; the processes of an unclaimed slot end with this process, and {@link WarmSlots.sweep} removes the
 * rest of what an earlier driver left.
 */
export class WarmSlots implements WarmPrograms {
  readonly #options: WarmSlotsOptions;
  readonly #ready: ReadySlot[] = [];
  readonly #refilling = new Map<Promise<void>, string>();
  readonly #discarding = new Set<Promise<void>>();
  readonly #listeners = new Set<() => void>();
  readonly #starts: Record<StartKind, number> = { cold: 0, shell: 0, image: 0 };
  readonly #refills = { count: 0, totalMs: 0 };
  #wanted: readonly { readonly shape: SlotShape; readonly count: number }[] = [];
  /** Shapes whose slots failed since one was claimed. */
  readonly #failures = new Map<string, Failure>();
  #timer: { readonly dueMs: number; readonly deadline: Deadline } | undefined;
  #isClosed = false;

  constructor(options: WarmSlotsOptions) {
    this.#options = options;
  }

  /** Removes the slots of an earlier driver. */
  async sweep(): Promise<void> {
    const { dir, launcher, deadlines } = this.#options;
    for (const name of await readdir(dir).catch(() => [])) {
      const folder = programFolder(dir, name);
      await launcher.sweep(folder, deadlines);
      await this.#discardFolder(folder);
    }
  }

  keep(plan: WarmPlan): void {
    this.#wanted = shapesOf(plan, this.#options.launcher.slotKinds?.includes("image") === true);
    this.#failures.clear();
    for (const slot of this.#surplus()) this.#discard(slot);
    this.#schedule(0);
    this.#notify();
  }

  status(): WarmStatus {
    const problem = [...this.#failures.values()].find((failure) => failure.problem !== undefined)?.problem;
    const count = (kind: SlotShape["kind"]): { readonly desired: number; readonly ready: number } => ({
      desired: this.#wanted.reduce((sum, { shape, count: each }) => sum + (shape.kind === kind ? each : 0), 0),
      ready: this.#ready.filter(({ shape }) => shape.kind === kind).length,
    });
    return {
      shells: count("shell"),
      images: count("image"),
      starts: { ...this.#starts },
      refills: { ...this.#refills },
      ...(problem !== undefined && { problem }),
    };
  }

  onChange(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  /** Takes the best slot for a program and counts the start. Undefined if there is none: the program starts cold. */
  take(spec: ProgramSpec): ReadySlot | undefined {
    const isUsable = ({ shape, prepared }: ReadySlot): boolean => fits(shape, spec) && prepared.canRun(spec);
    const usable = this.#ready.filter(isUsable);
    const slot = usable.find(({ shape }) => shape.kind === "image") ?? usable[0];
    this.#starts[slot?.shape.kind ?? "cold"] += 1;
    if (slot === undefined) return undefined;
    this.#ready.splice(this.#ready.indexOf(slot), 1);
    this.#schedule(refillDelayMs);
    this.#notify();
    return slot;
  }

  /** Removes all slots. */
  async close(): Promise<void> {
    this.#isClosed = true;
    this.#timer?.deadline.cancel();
    this.#wanted = [];
    await Promise.all(this.#refilling.keys());
    for (const slot of [...this.#ready]) this.#discard(slot);
    await Promise.all(this.#discarding);
  }

  #surplus(): readonly ReadySlot[] {
    const left = new Map(this.#wanted.map(({ shape, count }) => [shapeKey(shape), count]));
    return this.#ready.filter(({ shape }) => {
      const count = left.get(shapeKey(shape)) ?? 0;
      left.set(shapeKey(shape), count - 1);
      return count <= 0;
    });
  }

  /** The shapes of which slots are missing, most first; those that have failed come last, and one slot of them is prepared at a time. */
  #missing(): readonly { readonly shape: SlotShape; readonly retryAtMs: number }[] {
    const missing = this.#wanted.map(({ shape, count }) => {
      const key = shapeKey(shape);
      const present = this.#ready.filter((slot) => shapeKey(slot.shape) === key).length;
      const coming = [...this.#refilling.values()].filter((each) => each === key).length;
      const retryAtMs = this.#failures.get(key)?.retryAtMs ?? 0;
      return { shape, retryAtMs, count: retryAtMs > 0 && coming > 0 ? 0 : count - present - coming };
    });
    return missing
      .filter(({ count }) => count > 0)
      .sort((one, other) => Math.sign(one.retryAtMs) - Math.sign(other.retryAtMs) || other.count - one.count);
  }

  /** Refills after this time, or earlier if that is scheduled. */
  #schedule(delayMs: number): void {
    const { deadlines, clock } = this.#options;
    const dueMs = clock.monotonic() + delayMs;
    if (this.#isClosed || (this.#timer !== undefined && this.#timer.dueMs <= dueMs)) return;
    this.#timer?.deadline.cancel();
    const deadline = deadlines.after(delayMs, () => {
      this.#timer = undefined;
      this.#refill();
    });
    this.#timer = { dueMs, deadline };
  }

  #refill(): void {
    const now = this.#options.clock.monotonic();
    while (!this.#isClosed && this.#refilling.size < maxRefills) {
      const missing = this.#missing();
      const shape = missing.find(({ retryAtMs }) => retryAtMs <= now)?.shape;
      if (shape === undefined) {
        if (missing.length > 0) this.#schedule(Math.min(...missing.map(({ retryAtMs }) => retryAtMs)) - now);
        return;
      }
      const refilling = this.#prepare(shape).then(() => {
        this.#refilling.delete(refilling);
        this.#schedule(0);
      });
      this.#refilling.set(refilling, shapeKey(shape));
    }
  }

  /** Records why a slot of a shape failed. Until one is claimed, each failure doubles the time to the next attempt. */
  #fail(shape: SlotShape, problem: string): void {
    const before = this.#failures.get(shapeKey(shape))?.retryMs;
    const retryMs = before === undefined ? minRetryMs : Math.min(before * 2, maxRetryMs);
    this.#failures.set(shapeKey(shape), { problem, retryMs, retryAtMs: this.#options.clock.monotonic() + retryMs });
  }

  /** Prepares one slot. Never rejects. */
  async #prepare(shape: SlotShape): Promise<void> {
    const { dir, launcher, deadlines, unmounter, random, clock } = this.#options;
    const began = clock.monotonic();
    const folder = programFolder(dir, Math.floor(random() * 2 ** 52).toString(36));
    try {
      await mkdir(folder.path, { recursive: true, mode: 0o711 });
      await writeFile(tagFile(folder.path), folder.tag, { mode: 0o600 });
      const spec: ProgramSpec = { id: basename(folder.path), command: ["true"], ...shape.template };
      const request: LaunchRequest = { spec, folder, deadlines, unmounter };
      const prepared = await launcher.prepareSlot?.(request, shape);
      if (prepared === undefined) throw new ExecutionError("Unsupported", "this driver has no warm slots");
      this.#add(shape, folder, prepared);
      // The plan may have changed in the meantime. Listeners must not count a slot of an earlier plan as ready.
      for (const slot of this.#surplus()) this.#discard(slot);
      this.#refills.count += 1;
      this.#refills.totalMs += clock.monotonic() - began;
      // It may still end before it is claimed.
      const failure = this.#failures.get(shapeKey(shape));
      if (failure !== undefined) this.#failures.set(shapeKey(shape), { ...failure, problem: undefined });
    } catch (error) {
      this.#fail(shape, describeError(error));
      await launcher.sweep(folder, deadlines).catch(() => {});
      await this.#discardFolder(folder).catch(() => {});
    } finally {
      this.#notify();
    }
  }

  #add(shape: SlotShape, folder: ProgramFolder, prepared: PreparedSlot): void {
    const slot: ReadySlot = {
      ...{ shape, folder },
      prepared: {
        ...prepared,
        claim: async (request) => {
          const claimed = await prepared.claim(request);
          this.#failures.delete(shapeKey(shape));
          return claimed;
        },
      },
    };
    this.#ready.push(slot);
    // Its image or settings are broken, or something outside this process has ended it.
    void prepared.ended.then(() => {
      if (!this.#ready.includes(slot)) return;
      const message = readErrorTail(folder, { id: basename(folder.path), command: ["true"] }).trim();
      this.#fail(shape, `a slot ended before it was claimed${message === "" ? "" : `: ${message}`}`);
      this.#discard(slot);
      this.#schedule(0);
      this.#notify();
    });
  }

  #discard(slot: ReadySlot): void {
    const index = this.#ready.indexOf(slot);
    if (index >= 0) this.#ready.splice(index, 1);
    const discarding = (async () => {
      await slot.prepared.abandon();
      await this.#discardFolder(slot.folder);
    })()
      // The next driver on this directory sweeps what is left.
      .catch(() => {})
      .finally(() => this.#discarding.delete(discarding));
    this.#discarding.add(discarding);
  }

  #discardFolder(folder: ProgramFolder): Promise<void> {
    const { trash, clock, unmounter } = this.#options;
    return discardFolder(folder, trash, clock.now(), unmounter);
  }

  #notify(): void {
    for (const listener of this.#listeners) listener();
  }
}

/** Directory of the slots, below a driver's own. */
export const warmFolder = (dir: string): string => join(dir, ".warm");
