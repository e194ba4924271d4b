import { appendFileSync, mkdtempSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { systemClock } from "@keelson/api-machinery/time";
import { afterEach, beforeEach, expect, it } from "vitest";
import type { Program } from "../driver.ts";
import { type LogPart, type LogPosition, readLog, type ReadLogOptions } from "./followed-log.ts";
import { rotateIfLarge } from "./rotate-log.ts";

const policy = { maxBytes: 10, maxFiles: 3 };
let dir: string;
let log: string;
let exit: () => void;
let program: Pick<Program, "onExit" | "state">;

beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "keelson-log-"));
  log = join(dir, "stdout.log");
  writeFileSync(log, "");
  const listeners = new Set<() => void>();
  let kind = "running";
  exit = () => {
    kind = "exited";
    for (const listener of listeners) listener();
  };
  program = {
    get state() {
      return { kind } as Program["state"];
    },
    onExit(listener) {
      listeners.add(listener);
      return () => void listeners.delete(listener);
    },
  };
});

afterEach(() => rmSync(dir, { recursive: true, force: true }));

const read = (options: Partial<ReadLogOptions> = {}): AsyncGenerator<LogPart> =>
  readLog(program, log, { isFollowing: false, signal: new AbortController().signal, clock: systemClock, ...options });

async function text(parts: AsyncGenerator<LogPart>): Promise<string> {
  let all = "";
  for await (const { data } of parts) all += data.toString();
  return all;
}

/** Reads until the text is complete. */
async function next(parts: AsyncGenerator<LogPart>, expected: string): Promise<LogPosition> {
  let all = "";
  let position: LogPosition = { after: 0, offset: 0, last: "" };
  while (all.length < expected.length) {
    const { value, done } = await parts.next();
    if (done === true) break;
    all += value.data.toString();
    position = value.next;
  }
  expect(all).toBe(expected);
  return position;
}

async function rotateAfter(content: string): Promise<void> {
  appendFileSync(log, content);
  expect(await rotateIfLarge(log, policy)).toBe(true);
}

it("reads rotated files first", async () => {
  await rotateAfter("first line\n");
  await rotateAfter("second line\n");
  appendFileSync(log, "third");
  // Of a log above the limit, the end is kept.
  expect(await text(read())).toBe("irst line\ncond line\nthird");
});

it.each([
  [0, ""],
  [1, "e\n"],
  [2, "d\ne\n"],
  [3, "d1234567\nd\ne\n"],
  [100, "bc123456\nd1234567\nd\ne\n"],
])("begins with the last %i lines, including in rotated files", async (tailLines, expected) => {
  await rotateAfter("abc123456\nd");
  truncateSync(`${log}.1`, 0);
  appendFileSync(`${log}.1`, "bc123456\nd");
  appendFileSync(log, "1234567\nd\ne\n");
  expect(await text(read({ tailLines }))).toBe(expected);
});

it("follows a log across rotations until its program exits", async () => {
  const parts = read({ isFollowing: true });
  appendFileSync(log, "one\n");
  await next(parts, "one\n");
  appendFileSync(log, "two\n");
  await rotateAfter("three\n");
  appendFileSync(log, "four\n");
  await next(parts, "two\nthree\nfour\n");
  // What is written without a change of the reader is read as well.
  const waiting = next(parts, "five\n");
  appendFileSync(log, "five\n");
  await waiting;
  appendFileSync(log, "last");
  exit();
  expect(await text(parts)).toBe("last");
});

it("continues at a position after rotations, of which only the end was copied", async () => {
  const kept = { maxBytes: 100, maxFiles: 3 };
  const parts = read({ isFollowing: true });
  const first = `${"a".repeat(70)}\n`;
  appendFileSync(log, first);
  const position = await next(parts, first);
  await parts.return(undefined);
  appendFileSync(log, `${"b".repeat(40)}\n`);
  await rotateIfLarge(log, kept);
  appendFileSync(log, "c\n");
  expect(await text(read({ from: position }))).toBe(`${"b".repeat(40)}\nc\n`);
  appendFileSync(log, `${"d".repeat(110)}\n`);
  await rotateIfLarge(log, kept);
  appendFileSync(log, "e\n");
  expect(await text(read({ from: position }))).toBe(`${"b".repeat(40)}\n${"d".repeat(99)}\ne\n`);
});

it("continues with the oldest line that is kept if rotation has removed the rest", async () => {
  await rotateAfter("0123456789\n");
  const parts = read({ isFollowing: true });
  const position = await next(parts, "123456789\n");
  await parts.return(undefined);
  for (const letter of "abcd") await rotateAfter(`${letter.repeat(10)}\n`);
  expect(await text(read({ from: position }))).toBe(`${"c".repeat(9)}\n${"d".repeat(9)}\n`);
});

it("does not repeat what a rotation has copied and not truncated yet", async () => {
  appendFileSync(log, "abcdefghij\n");
  const parts = read({ isFollowing: true });
  await next(parts, "abcdefghij\n");
  writeFileSync(`${log}.1`, "abcdefghij\n");
  const waiting = parts.next();
  await new Promise((resolve) => setImmediate(resolve));
  truncateSync(log, 0);
  appendFileSync(log, "k");
  expect((await waiting).value?.data.toString()).toBe("k");
  await parts.return(undefined);
});

it("ends when its reader disconnects", async () => {
  const reader = new AbortController();
  const parts = read({ isFollowing: true, signal: reader.signal });
  const waiting = parts.next();
  reader.abort();
  expect((await waiting).done).toBe(true);
});
