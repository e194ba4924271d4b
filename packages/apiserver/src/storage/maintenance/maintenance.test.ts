import { cpSync, existsSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createVirtualClock } from "@keelson/api-machinery/testing";
import fc from "fast-check";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { openStore } from "../open-store.ts";
import { isStorageError } from "../storage-error.ts";
import type { Store } from "../store.ts";
import { backupStorage } from "./backup.ts";
import { compactStorage } from "./compact.ts";
import { repairStorage } from "./repair.ts";
import { restoreStorage, unknownRevisions } from "./restore.ts";
import { verifyStorage } from "./verify.ts";

const clock = createVirtualClock();
let root: string;
let dir: string;
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), "keelson-maintenance-"));
  dir = join(root, "storage");
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

const keyOf = (index: number): string => `/things/n/${String(index).padStart(3, "0")}`;

async function put(store: Store, key: string, data: string): Promise<number> {
  const object = { apiVersion: "v1", kind: "Thing", metadata: { name: key }, data };
  const result = await store.write(key, store.get(key)?.revision ?? 0, object);
  if (!result.ok) throw new Error("conflict");
  return result.stored.revision;
}

const open = (at = dir): Promise<Store> => openStore({ dir: at, clock });

/** What a directory holds: `key@revision`. */
async function contentOf(at: string): Promise<{ revision: number; keys: readonly string[] }> {
  const store = await open(at);
  const keys = store.list("").items.map(({ key, revision }) => `${key}@${revision}`);
  const { revision } = store;
  await store.close();
  return { revision, keys };
}

/** Writes `count` objects, the last 20 of which only the journal has, and leaves the directory as SIGKILL does. */
async function killedFolder(count: number): Promise<number> {
  const live = join(root, "live");
  let store = await open(live);
  for (let index = 0; index < count - 20; index++) await put(store, keyOf(index), "x".repeat(300));
  await store.close();
  store = await open(live);
  for (let index = count - 20; index < count; index++) await put(store, keyOf(index), "x".repeat(300));
  cpSync(live, dir, { recursive: true });
  rmSync(join(dir, "lock"));
  const { revision } = store;
  await store.close();
  return revision;
}

function flip(path: string, offset: number): void {
  const content = readFileSync(path);
  content[offset] = (content[offset] ?? 0) ^ 0xff;
  writeFileSync(path, content);
}

describe("verifyStorage", () => {
  it("reports an intact directory, even while it is in use", async () => {
    const revision = await killedFolder(60);
    expect(await verifyStorage(dir)).toMatchObject({
      isHealthy: true,
      revision,
      highWaterMark: revision,
      journaledCommits: 20,
    });
    const store = await open();
    try {
      expect(await verifyStorage(dir)).toMatchObject({ isHealthy: true, owner: process.pid, faults: [] });
    } finally {
      await store.close();
    }
  });

  it("names damage", async () => {
    await killedFolder(60);
    flip(join(dir, "data.mdb"), 24);
    const report = await verifyStorage(dir);
    expect(report).toMatchObject({ isHealthy: false });
    expect(report.faults[0]).toMatchObject({ file: "data.mdb", offset: 0 });
    await expect(verifyStorage(join(root, "missing"))).rejects.toMatchObject({ code: "Missing" });
  });
});

describe("backupStorage and restoreStorage", () => {
  it("copy the state of one revision to an empty directory, where resourceVersions continue", async () => {
    const revision = await killedFolder(60);
    const file = join(root, "backup");
    expect(await backupStorage(dir, file)).toEqual({ revision, objects: 60 });
    expect(statSync(file).mode & 0o777).toBe(0o600);
    await expect(backupStorage(dir, file)).rejects.toMatchObject({ code: "NotEmpty" });
    const target = join(root, "target", "storage");
    const restored = await restoreStorage(target, file);
    expect(restored).toMatchObject({ objects: 60, backupRevision: revision, revision: revision + unknownRevisions });
    const before = await contentOf(dir);
    const after = await contentOf(target);
    expect(after.keys).toEqual(before.keys);
    expect(after.revision).toBe(revision + unknownRevisions);
    const store = await open(target);
    expect(() => store.watch("/things/", revision, () => undefined)).toThrow("too old resource version");
    expect(await put(store, "/things/n/new", "")).toBe(revision + unknownRevisions + 1);
    await store.close();
  });

  it("replace data only by force, keep it aside, and never go back", async () => {
    await killedFolder(60);
    const file = join(root, "backup");
    await backupStorage(dir, file);
    const store = await open();
    for (let round = 0; round < 50; round++) await put(store, keyOf(round), "later");
    const { revision } = store;
    await expect(restoreStorage(dir, file, { force: true })).rejects.toMatchObject({ code: "InUse" });
    await store.close();
    await expect(restoreStorage(dir, file)).rejects.toMatchObject({ code: "NotEmpty" });
    const restored = await restoreStorage(dir, file, { force: true });
    expect(restored).toMatchObject({ revision: revision + 1, replaced: `${dir}.replaced` });
    expect((await contentOf(dir)).keys).toHaveLength(60);
    expect((await contentOf(dir)).revision).toBe(revision + 1);
    expect((await contentOf(`${dir}.replaced`)).revision).toBe(revision);
  });

  it("reject a damaged backup wherever it is altered or cut off, and leave the directory alone", async () => {
    await killedFolder(60);
    const file = join(root, "backup");
    await backupStorage(dir, file);
    const content = readFileSync(file);
    const target = join(root, "target");
    await fc.assert(
      fc.asyncProperty(fc.nat(content.length - 1), fc.boolean(), async (offset, isCut) => {
        const damaged = Buffer.from(isCut ? content.subarray(0, offset) : content);
        if (!isCut) damaged[offset] = (damaged[offset] ?? 0) ^ 0x10;
        const path = join(root, "damaged");
        writeFileSync(path, damaged);
        await expect(restoreStorage(target, path)).rejects.toMatchObject({ code: "Damaged" });
        expect(existsSync(target)).toBe(false);
      }),
      { numRuns: 40 },
    );
  });
});

describe("repairStorage", () => {
  it("leaves an intact directory alone", async () => {
    const revision = await killedFolder(60);
    expect(await repairStorage(dir)).toEqual({ isRepaired: false, objects: 60, revision, faults: [], lost: [] });
    expect(existsSync(`${dir}.replaced`)).toBe(false);
  });

  it("keeps what is intact, even after a gap in the journal, and lists the rest", async () => {
    const revision = await killedFolder(60);
    const path = join(dir, "journal-0");
    const content = readFileSync(path);
    const at = content.indexOf('"name":"/things/n/050"');
    flip(path, at);
    const repaired = await repairStorage(dir);
    const lostRevision = revision - 9;
    expect(repaired).toMatchObject({
      isRepaired: true,
      objects: 59,
      revision: revision + 1,
      lost: [{ revisions: [lostRevision, lostRevision] }],
      replaced: `${dir}.replaced`,
    });
    const { keys, revision: after } = await contentOf(dir);
    expect(keys).toHaveLength(59);
    expect(keys.join()).not.toContain("/things/n/050");
    expect(after).toBe(revision + 1);
    expect(await verifyStorage(dir)).toMatchObject({ isHealthy: true });
  });

  it.each([
    ["both meta pages", [24, 4096 + 24]],
    ["one meta page", [24]],
  ])("recovers all objects from the pages of a database without %s", async (_, offsets) => {
    const revision = await killedFolder(60);
    for (const offset of offsets) flip(join(dir, "data.mdb"), offset);
    const repaired = await repairStorage(dir);
    expect(repaired).toMatchObject({ isRepaired: true, objects: 60 });
    expect((await contentOf(dir)).keys).toHaveLength(60);
    expect((await contentOf(dir)).revision).toBeGreaterThan(revision);
  });

  it("never reissues a revision, whatever files are lost", async () => {
    const revision = await killedFolder(60);
    for (const name of ["high-water-mark", "journal-0", "journal-1"]) rmSync(join(dir, name));
    const repaired = await repairStorage(dir);
    expect(repaired.objects).toBe(40);
    expect((await contentOf(dir)).revision).toBeGreaterThan(revision);
  });

  it("opens and keeps all undamaged objects after any damage", { timeout: 60_000 }, async () => {
    const revision = await killedFolder(120);
    await fc.assert(
      fc.asyncProperty(
        fc.constantFrom("data.mdb", "journal-0", "journal-1", "high-water-mark"),
        fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }),
        async (name, position) => {
          const copy = mkdtempSync(join(root, "copy-"));
          const storage = join(copy, "storage");
          cpSync(dir, storage, { recursive: true });
          const path = join(storage, name);
          flip(path, Math.floor(position * Math.min(statSync(path).size, 60_000)));
          const { lost, isRepaired, objects } = await repairStorage(storage);
          const { keys, revision: after } = await contentOf(storage);
          expect(keys).toHaveLength(objects);
          expect(after).toBeGreaterThanOrEqual(revision);
          // One flipped byte costs at most one object, or the objects of one page.
          const isPage = lost.some(({ object, revisions }) => object === undefined && revisions === undefined);
          expect(objects).toBeGreaterThanOrEqual(isPage ? 90 : 119);
          if (!isRepaired || lost.length === 0) expect(objects).toBe(120);
          rmSync(copy, { recursive: true, force: true });
        },
      ),
      { numRuns: 30 },
    );
  });
});

describe("compactStorage", () => {
  it("removes free pages and changes nothing else", async () => {
    let store = await open();
    for (let index = 0; index < 200; index++) await put(store, keyOf(index), "x".repeat(3_000));
    for (let index = 0; index < 180; index++)
      await store.write(keyOf(index), store.get(keyOf(index))?.revision ?? 0, undefined);
    const { revision } = store;
    await expect(compactStorage(dir)).rejects.toMatchObject({ code: "InUse" });
    await store.close();
    store = await openStore({ dir, clock, historyEvents: 1 });
    for (let index = 0; index < 4; index++) await put(store, keyOf(500), String(index));
    await store.close();
    const before = await contentOf(dir);
    const { bytesBefore, bytesAfter } = await compactStorage(dir);
    expect(bytesAfter).toBeLessThan(bytesBefore / 2);
    expect(await contentOf(dir)).toEqual(before);
    expect(before.revision).toBe(revision + 4);
    expect(await verifyStorage(dir)).toMatchObject({ isHealthy: true });
  });

  it("rejects a damaged directory", async () => {
    await killedFolder(60);
    flip(join(dir, "data.mdb"), 24);
    const failure = await compactStorage(dir).catch((error: unknown) => error);
    expect(isStorageError(failure, "Damaged")).toBe(true);
  });
});
