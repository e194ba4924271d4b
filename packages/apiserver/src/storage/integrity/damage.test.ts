import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, truncateSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createVirtualClock } from "@keelson/api-machinery/testing";
import fc from "fast-check";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { openStore } from "../open-store.ts";
import { isStorageError } from "../storage-error.ts";
import type { Store } from "../store.ts";

const clock = createVirtualClock();
let root: string;
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), "keelson-damage-"));
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

const keyOf = (index: number): string => `/things/n/${String(index).padStart(3, "0")}`;

async function create(store: Store, index: number, bytes = 20): Promise<void> {
  const object = { apiVersion: "v1", kind: "Thing", metadata: { name: String(index) }, data: "x".repeat(bytes) };
  const result = await store.write(keyOf(index), 0, object);
  if (!result.ok) throw new Error("conflict");
}

/** A directory as SIGKILL leaves it after `flushed` objects in the database and `journaled` ones in the journal. */
async function killedFolder(flushed: number, journaled: number, bytes = 20): Promise<{ dir: string; revision: number }> {
  const dir = join(root, "live");
  const before = await openStore({ dir, clock });
  for (let index = 0; index < flushed; index++) await create(before, index, bytes);
  await before.close();
  const store = await openStore({ dir, clock });
  for (let index = flushed; index < flushed + journaled; index++) await create(store, index, bytes);
  const killed = join(root, "killed");
  cpSync(dir, killed, { recursive: true });
  rmSync(join(killed, "lock"));
  const { revision } = store;
  await store.close();
  return { dir: killed, revision };
}

async function openFails(dir: string): Promise<string> {
  const opened = openStore({ dir, clock, sync: false }).then(async (store) => {
    const { revision } = store;
    await store.close();
    return `opened at revision ${revision}`;
  });
  return opened.catch((error: unknown) => (isStorageError(error, "Damaged") ? error.message : Promise.reject(error)));
}

function flip(path: string, offset: number, mask = 0xff): void {
  const content = readFileSync(path);
  content[offset] = (content[offset] ?? 0) ^ mask;
  writeFileSync(path, content);
}

/** Offsets of the records of a journal file. */
function recordsOf(path: string): readonly number[] {
  const content = readFileSync(path);
  const offsets: number[] = [];
  for (let at = content.indexOf("KSJ1"); at >= 0; at = content.indexOf("KSJ1", at + 1)) offsets.push(at);
  return offsets;
}

describe("a damaged data directory", () => {
  it.each([
    ["the first", 0],
    ["a middle", 100],
    ["the last", 199],
  ])("does not open if %s journal record is altered, and the error names the place", async (_, index) => {
    const { dir } = await killedFolder(28, 200);
    const path = join(dir, "journal-0");
    const offset = recordsOf(path)[28 + index] ?? -1;
    flip(path, offset + 60);
    const message = await openFails(dir);
    const revision = 30 + index;
    expect(message).toContain(`journal-0 at offset ${offset}: `);
    expect(message).toContain(
      index === 199 ? `revision ${revision} is missing` : `revisions ${revision} to ${revision} are missing`,
    );
    expect(message).toContain("intact: the database up to revision 29 with 28 objects");
    if (index === 100) expect(message).toContain("journal revisions 30 to 129, journal revisions 131 to 229");
    expect(message).toContain("keelson storage repair");
  });

  it("does not open if the journal is cut off", async () => {
    const { dir } = await killedFolder(28, 200);
    const path = join(dir, "journal-0");
    truncateSync(path, recordsOf(path)[100] ?? 0);
    expect(await openFails(dir)).toContain("revisions 102 to 229 are missing, although acknowledged");
  });

  it("does not open without a journal file", async () => {
    const { dir } = await killedFolder(28, 200);
    rmSync(join(dir, "journal-0"));
    rmSync(join(dir, "journal-1"));
    const message = await openFails(dir);
    expect(message).toContain("journal-0: the file is missing");
    expect(message).toContain("journal-1: the file is missing");
  });

  it("does not open without its database or its high-water mark", async () => {
    const { dir } = await killedFolder(28, 3);
    const copy = join(root, "copy");
    cpSync(dir, copy, { recursive: true });
    rmSync(join(dir, "data.mdb"));
    expect(await openFails(dir)).toContain("data.mdb: the file is missing");
    rmSync(join(copy, "high-water-mark"));
    expect(await openFails(copy)).toContain("high-water-mark: the file is missing");
  });

  it.each([
    ["header", (path: string) => flip(path, 24)],
    ["page size", (path: string) => flip(path, 49)],
    ["length", (path: string) => truncateSync(path, Math.floor(statSync(path).size / 2))],
    ["first bytes", (path: string) => truncateSync(path, 100)],
    ["content", (path: string) => writeFileSync(path, Buffer.alloc(statSync(path).size, 0xa5))],
  ])("reports a database with a damaged %s", async (_, damage) => {
    const { dir } = await killedFolder(100, 0);
    damage(join(dir, "data.mdb"));
    expect(await openFails(dir)).toMatch(/data\.mdb at offset \d+: /);
  });

  it.each(["removed", "emptied"])(
    "is not taken for a new one if its files are emptied and the high-water mark is %s",
    async (what) => {
      const { dir } = await killedFolder(5, 5);
      for (const name of ["journal-0", "journal-1", "data.mdb"]) truncateSync(join(dir, name), 0);
      if (what === "removed") rmSync(join(dir, "high-water-mark"));
      else truncateSync(join(dir, "high-water-mark"), 0);
      expect(await openFails(dir)).toContain("data.mdb: the file is empty");
    },
  );

  it("names an object whose value is altered", async () => {
    const { dir } = await killedFolder(30, 0, 50);
    const path = join(dir, "data.mdb");
    const content = readFileSync(path);
    const text = '"name":"17"';
    for (let at = content.indexOf(text); at >= 0; at = content.indexOf(text, at + 1)) flip(path, at + 8, 0x01);
    expect(await openFails(dir)).toContain(`object ${keyOf(17)} is damaged: its checksum does not match`);
  });

  it("opens after a crash in the middle of a journal write", async () => {
    const { dir, revision } = await killedFolder(5, 10);
    const path = join(dir, "journal-0");
    const offsets = recordsOf(path);
    const last = offsets.at(-1) ?? 0;
    const content = readFileSync(path);
    // The next record, not acknowledged, was written by half.
    const torn = Buffer.from(content.subarray(last, last + 80));
    let end = content.length;
    while (content[end - 1] === 0) end -= 1;
    torn.copy(content, end + 8);
    writeFileSync(path, content);
    expect(await openFails(dir)).toBe(`opened at revision ${revision}`);
  });

  it("opens with one damaged slot of the high-water mark, and not with two", async () => {
    const { dir, revision } = await killedFolder(5, 10);
    flip(join(dir, "high-water-mark"), 10);
    expect(await openFails(dir)).toBe(`opened at revision ${revision}`);
    flip(join(dir, "high-water-mark"), 10);
    flip(join(dir, "high-water-mark"), 522);
    expect(await openFails(dir)).toContain("high-water-mark: the file is unreadable");
  });

  it("never loses an acknowledged object silently, reissues a revision or crashes, whatever is changed", {
    timeout: 120_000,
  }, async () => {
    const { dir, revision } = await killedFolder(150, 40, 700);
    const files = readdirSync(dir).filter((name) => name !== "control");
    const change = fc.record({
      file: fc.constantFrom(...files),
      position: fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }),
      mask: fc.integer({ min: 1, max: 255 }),
      kind: fc.constantFrom("flip", "flip", "flip", "flip", "truncate", "remove", "zero page"),
    });
    const outcomes = { refused: 0, opened: 0 };
    await fc.assert(
      fc.asyncProperty(fc.array(change, { minLength: 1, maxLength: 3 }), async (changes) => {
        const copy = mkdtempSync(join(root, "copy-"));
        cpSync(dir, copy, { recursive: true });
        for (const { file, position, mask, kind } of changes) {
          const path = join(copy, file);
          const size = statSync(path, { throwIfNoEntry: false })?.size ?? 0;
          const offset = Math.floor(position * Math.min(size, file.startsWith("journal") ? 64 * 1024 : size));
          if (size === 0) continue;
          if (kind === "remove") rmSync(path);
          else if (kind === "truncate") truncateSync(path, offset);
          else if (kind === "flip") flip(path, offset, mask);
          else {
            const content = readFileSync(path);
            content.fill(0, offset - (offset % 4096), Math.min(offset - (offset % 4096) + 4096, size));
            writeFileSync(path, content);
          }
        }
        const store = await openStore({ dir: copy, clock, sync: false }).catch((error: unknown) => {
          if (!isStorageError(error, "Damaged")) throw error;
          outcomes.refused += 1;
        });
        if (store === undefined) return;
        outcomes.opened += 1;
        try {
          expect(store.revision).toBeGreaterThanOrEqual(revision);
          for (let index = 0; index < 190; index++) {
            if (store.get(keyOf(index)) === undefined) throw new Error(`${keyOf(index)} is lost`);
          }
          expect(store.list("/things/").items).toHaveLength(190);
          await create(store, 500);
          expect(store.get(keyOf(500))?.revision).toBeGreaterThan(revision);
        } finally {
          await store.close();
          rmSync(copy, { recursive: true, force: true });
        }
      }),
      { numRuns: 60 },
    );
    expect(outcomes.refused).toBeGreaterThan(5);
    expect(outcomes.opened).toBeGreaterThan(2);
  });
});
