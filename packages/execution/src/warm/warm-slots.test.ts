import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createVirtualClock, type VirtualClock } from "@keelson/api-machinery/testing";
import { createDeferred, type Deferred } from "@keelson/api-machinery/deferred";
import { afterEach, beforeEach, expect, test } from "vitest";
import type { Launcher, PreparedProgram } from "../process/launcher.ts";
import { Deadlines } from "../program/deadlines.ts";
import { Unmounter } from "../program/files/size-limit.ts";
import { warmFolder, WarmSlots } from "./warm-slots.ts";

let base: string;
let clock: VirtualClock;
let deadlines: Deadlines;
let slots: WarmSlots;
/** Before a slot of the image is prepared. */
let imageGate: Promise<void>;
/** Ends of the prepared slots of the image. */
let images: Deferred<void>[];
let isImageBroken: boolean;

const image = "/image";
const prepared: PreparedProgram = {
  identity: {},
  release: () => Promise.reject(new Error("not used")),
  abandon: () => Promise.resolve(),
};

const launcher = {
  slotKinds: ["shell", "image"],
  prepareSlot: (_, shape) => {
    const end = createDeferred<void>();
    if (shape.kind === "image") {
      if (isImageBroken) return Promise.reject(new Error("the image is broken"));
      images.push(end);
    }
    return (shape.kind === "image" ? imageGate : Promise.resolve()).then(() => ({
      ended: end.promise,
      canRun: () => true,
      claim: () => Promise.resolve(prepared),
      abandon: () => Promise.resolve(),
    }));
  },
  sweep: () => Promise.resolve(),
} satisfies Partial<Launcher>;

beforeEach(() => {
  base = mkdtempSync(join(tmpdir(), "keelson-slots-"));
  clock = createVirtualClock();
  deadlines = new Deadlines(clock);
  images = [];
  imageGate = Promise.resolve();
  isImageBroken = false;
  slots = new WarmSlots({
    ...{ clock, random: Math.random, dir: warmFolder(base), trash: join(base, ".trash") },
    launcher: launcher as unknown as Launcher,
    deadlines,
    unmounter: new Unmounter(),
  });
});

afterEach(async () => {
  await slots.close();
  rmSync(base, { recursive: true, force: true });
});

async function until(isReached: () => boolean): Promise<void> {
  while (!isReached()) await new Promise((resolve) => setImmediate(resolve));
}

/** Lets file operations that are in progress end. */
async function settle(): Promise<void> {
  for (let turn = 0; turn < 20; turn++) {
    existsSync(base);
    await new Promise((resolve) => setImmediate(resolve));
  }
}

const plan = (shells: number, perImage: number) => ({ template: {}, shells, perImage, images: [image], roots: [] });
const spec = { id: "a", command: ["true"] } as const;

test("a broken image does not delay the refill of other slots", async () => {
  isImageBroken = true;
  slots.keep(plan(1, 1));
  await clock.advance(0);
  await until(() => slots.status().shells.ready === 1 && slots.status().problem !== undefined);
  expect(slots.status().problem).toBe("the image is broken");
  // The retry of the image is scheduled for later than the refill below.
  for (let turn = 0; turn < 2; turn++) {
    await settle();
    await until(() => deadlines.size === 1);
    if (turn === 0) await clock.advance(0);
  }
  expect(slots.take(spec)?.shape.kind).toBe("shell");
  await clock.advance(5);
  await until(() => slots.status().shells.ready === 1);
});

test("a slot of an earlier plan does not count as ready", async () => {
  const gate = createDeferred<void>();
  imageGate = gate.promise;
  slots.keep(plan(0, 1));
  await clock.advance(0);
  await until(() => images.length === 1);
  const seen: number[] = [];
  slots.onChange(() => void seen.push(slots.status().images.ready));
  slots.keep({ ...plan(0, 1), images: ["/other"] });
  gate.resolve();
  await until(() => seen.length === 2);
  expect(seen).toEqual([0, 0]);
  expect(slots.take({ ...spec, isolation: { root: "/other" } })).toBeUndefined();
});

test("a slot that ends before it is claimed is reported, and replaced after a backoff that only a claim resets", async () => {
  slots.keep(plan(0, 1));
  await clock.advance(0);
  await until(() => slots.status().images.ready === 1);
  for (const [attempt, backoffMs] of [500, 1_000, 2_000].entries()) {
    images[attempt]?.resolve();
    await until(() => slots.status().images.ready === 0);
    expect(slots.status().problem).toMatch(/^a slot ended before it was claimed/);
    await settle();
    await clock.advance(backoffMs - 1);
    await settle();
    expect(images).toHaveLength(attempt + 1);
    await clock.advance(1);
    await until(() => slots.status().images.ready === 1);
  }
  expect(slots.status().problem).toBeUndefined();
  const slot = slots.take({ ...spec, isolation: { root: image } });
  await slot?.prepared.claim({} as never);
  await clock.advance(5);
  await until(() => slots.status().images.ready === 1);
  images.at(-1)?.resolve();
  await until(() => slots.status().images.ready === 0);
  await settle();
  await clock.advance(500);
  await until(() => slots.status().images.ready === 1);
});
