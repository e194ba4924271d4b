import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { readRecord, writeRecord } from "./volume-record.ts";

const record = { sizeBytes: 1, agentDir: "/agent", owners: [{ first: 100, size: 1 }] };
let dir: string;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "volume-record-"));
});
afterEach(() => rmSync(dir, { recursive: true }));

it("reads what was written, and nothing if the file is missing", async () => {
  const path = join(dir, "volume.json");
  expect(await readRecord(path)).toBeUndefined();
  await writeRecord(path, record);
  expect(await readRecord(path)).toEqual(record);
  await writeRecord(path, { ...record, isGrowing: true });
  expect(await readRecord(path)).toEqual({ ...record, isGrowing: true });
});

it.each(["", "{", "[]", "{}", JSON.stringify({ ...record, owners: [{ first: -1, size: 1 }] })])(
  "takes %j for damaged",
  async (text) => {
    writeFileSync(join(dir, "volume.json"), text);
    expect(await readRecord(join(dir, "volume.json"))).toBeUndefined();
  },
);

it("does not take a record that cannot be read for a missing one", async () => {
  const path = join(dir, "volume.json");
  mkdirSync(path);
  await expect(readRecord(path)).rejects.toMatchObject({ code: "EISDIR" });
});
