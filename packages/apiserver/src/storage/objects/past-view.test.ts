import { expect, it } from "vitest";
import type { LogRecord, State } from "../database/engine.ts";
import { encodeLogEntry, encodeRecord } from "./log-entry.ts";
import { viewPast } from "./past-view.ts";

const total = (parts: Iterable<number>): number => [...parts].reduce((sum, part) => sum + part, 0);

/** A state that reports each log entry that is read. */
function stateOf(objects: ReadonlyMap<string, number>, log: readonly LogRecord[], onEntry: () => void): State {
  const keys = [...objects.keys()].sort();
  const within = (start: string, end: string | undefined): string[] =>
    keys.filter((key) => key >= start && (end === undefined || key < end));
  const valueOf = (key: string): Uint8Array => encodeRecord(objects.get(key) ?? 0, Buffer.from(key));
  const range: State["range"] = (start, end) => within(start, end).map((key) => ({ key, value: valueOf(key) }));
  return {
    get: (key) => (objects.has(key) ? valueOf(key) : undefined),
    range,
    borrow: range,
    has: (key) => objects.has(key),
    count: (start, end) => [within(start, end).length],
    *log(after) {
      for (const entry of log) {
        if (entry.revision <= after) continue;
        onEntry();
        yield entry;
      }
    },
  };
}

it("reads at most one slice of the log per turn and shows the former state", async () => {
  const objects = new Map<string, number>(
    Array.from({ length: 20 }, (_, index) => [`k${String(index).padStart(2, "0")}`, 2 + index] as const),
  );
  const before = [...objects.keys()];
  const log: LogRecord[] = [];
  let revision = 21;
  const change = (key: string, to: "put" | "delete"): void => {
    revision += 1;
    const previousRevision = objects.get(key) ?? 0;
    const previousBytes = previousRevision === 0 ? undefined : Buffer.from(key);
    log.push({ revision, value: encodeLogEntry({ type: to, timeMs: 0, key, previousRevision, previousBytes }) });
    if (to === "delete") objects.delete(key);
    else objects.set(key, revision);
  };
  for (const key of before.slice(0, 7)) change(key, "delete");
  for (let index = 0; index < 9; index++) change(`new${index}`, "put");
  for (const key of ["k01", "k15", "new3", "other/x"]) change(key, "put");
  change("new4", "delete");

  const slices: number[] = [];
  let entries = 0;
  const state = stateOf(objects, log, () => (entries += 1));
  const pause = (): Promise<void> => {
    slices.push(entries);
    entries = 0;
    return Promise.resolve();
  };
  const past = await viewPast(state, "k", 21, { slice: 5, pause });
  expect(slices).toEqual([5, 5, 5, 5]);
  expect([...past.range("k", "l")].map(({ key }) => key)).toEqual(before);
  expect([...past.range("k05", "k10")].map(({ key }) => key)).toEqual(before.slice(5, 10));
  expect(total(past.count("k03", "l"))).toBe(17);
  const all = await viewPast(state, "", 21, { slice: 5, pause });
  expect([...all.range("", undefined)].map(({ key }) => key)).toEqual(before);
  expect(total(all.count("", undefined))).toBe(20);
});
