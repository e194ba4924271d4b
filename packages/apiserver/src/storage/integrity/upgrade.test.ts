import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createVirtualClock } from "@keelson/api-machinery/testing";
import { open } from "lmdb";
import { afterEach, beforeEach, expect, it } from "vitest";
import { encodeJournalRecord } from "../journal/journal-record.ts";
import { encodeLogEntry, encodeRecord } from "../objects/log-entry.ts";
import { encodeObject } from "../objects/stored-object.ts";
import { openStore } from "../open-store.ts";
import { inspectFolder } from "./inspection.ts";

let dir: string;
beforeEach(() => {
  dir = join(mkdtempSync(join(tmpdir(), "keelson-upgrade-")), "storage");
  mkdirSync(dir);
});
afterEach(() => rmSync(join(dir, ".."), { recursive: true, force: true }));

const keyOf = (index: number): string => `/things/n/${index}`;
const valueOf = (index: number): Uint8Array =>
  encodeRecord(
    index,
    encodeObject(keyOf(index), index, { apiVersion: "v1", kind: "Thing", metadata: { name: `${index}` } }).bytes,
  );
const eventOf = (index: number): Uint8Array =>
  encodeLogEntry({ type: "put", timeMs: 0, key: keyOf(index), previousRevision: 0, previousBytes: undefined });

/** A directory as versions without checksums wrote it: objects 2 to 5 in the database, 6 to 8 in the journal. */
async function writeOldFolder(): Promise<void> {
  const root = open({ path: dir, maxDbs: 4, overlappingSync: false, encoding: "binary" });
  const objects = root.openDB({ name: "objects", encoding: "binary" });
  const log = root.openDB({ name: "log", encoding: "binary" });
  const meta = root.openDB({ name: "meta", encoding: "json" });
  for (let index = 2; index <= 5; index++) {
    await objects.put(keyOf(index), Buffer.from(valueOf(index)));
    await log.put(index, Buffer.from(eventOf(index)));
  }
  await meta.put("position", { revision: 5, compacted: 1 });
  await root.close();
  const records = [6, 7, 8].map((index) =>
    encodeJournalRecord({
      base: index - 1,
      batch: {
        objects: [{ key: keyOf(index), value: valueOf(index) }],
        log: [{ revision: index, value: eventOf(index) }],
        position: { revision: index, compacted: 1 },
        dropAfter: 1,
      },
    }),
  );
  writeFileSync(join(dir, "journal-0"), Buffer.concat([...records, Buffer.alloc(1000)]));
  writeFileSync(join(dir, "journal-1"), Buffer.alloc(0));
}

it("opens a data directory without checksums, and adds them", async () => {
  await writeOldFolder();
  expect(inspectFolder(dir)).toMatchObject({ faults: [], revision: 8, database: { format: 1, objects: 4 } });
  const clock = createVirtualClock();
  for (let round = 0; round < 2; round++) {
    const store = await openStore({ dir, clock });
    expect(store.revision).toBe(8);
    expect(store.list("/things/").items.map(({ revision }) => revision)).toEqual([2, 3, 4, 5, 6, 7, 8]);
    const seen: number[] = [];
    store.watch("/things/", 3, (events) => seen.push(...events.map(({ revision }) => revision))).close();
    expect(seen).toEqual([4, 5, 6, 7, 8]);
    await store.close();
    expect(inspectFolder(dir)).toMatchObject({
      faults: [],
      revision: 8,
      database: { format: 2, objects: 7 },
      highWaterMark: 8,
    });
  }
});
