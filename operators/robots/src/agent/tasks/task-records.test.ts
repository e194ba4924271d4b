import { mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import type { HeldTask } from "../held-task.ts";
import { openTaskRecords } from "./task-records.ts";

const uid = "00000000-0000-4000-8000-000000000001";
const task: HeldTask = { uid, attempt: 1, phase: "ended", seq: 2, isAcknowledged: true, ticks: 0, changedAt: 0 };
let dir: string;

beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "keelson-records-"));
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

it.each<[string, (file: string) => void]>([
  ["empty", (file) => writeFileSync(file, "")],
  ["truncated", (file) => writeFileSync(file, JSON.stringify(task).slice(0, 30))],
  ["of another task", (file) => writeFileSync(file, JSON.stringify({ ...task, uid: uid.replace("1", "2") }))],
  ["a directory", (file) => mkdirSync(join(file, "sub"), { recursive: true })],
  ["a link to a directory", (file) => symlinkSync("/", file)],
  ["a link to nothing", (file) => symlinkSync("/no/such/file", file)],
])("moves a record aside that is %s, also twice", async (_, damage) => {
  const records = await openTaskRecords(dir);
  for (let times = 0; times < 2; times++) {
    damage(join(dir, `${uid}.json`));
    expect(await records.load()).toEqual({ tasks: [], damaged: [uid] });
    expect(readdirSync(dir)).toEqual([`${uid}.json.damaged`]);
  }
  await records.save(task);
  expect(await records.load()).toEqual({ tasks: [task], damaged: [] });
});
