import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Program } from "@keelson/execution";
import { afterEach, beforeEach, expect, test } from "vitest";
import { LogChanges } from "./log-changes.ts";

let folder: string;
let log: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "keelson-log-changes-"));
  log = join(folder, "stdout.log");
  writeFileSync(log, "");
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

/** A program whose end is reported by `end`. */
function createProgram(): { readonly onExit: Program["onExit"]; readonly listeners: Set<() => void>; end(): void } {
  const listeners = new Set<() => void>();
  return {
    listeners,
    onExit(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    end: () => listeners.forEach((listener) => listener()),
  };
}

test("subscribes to the end of the program once, however often the log grows, and not longer than it is read", async () => {
  const program = createProgram();
  {
    using changes = new LogChanges(log, program, undefined);
    for (const text of ["a", "b", "c"]) {
      const waiter = changes.listen();
      writeFileSync(log, text);
      await waiter.changed;
      waiter.close();
    }
    expect(program.listeners.size).toBe(1);
    const last = changes.listen();
    program.end();
    await last.changed;
    last.close();
    await changes.listen().changed;
  }
  expect(program.listeners.size).toBe(0);
});

test("ends a wait when the reader has gone", async () => {
  const reader = new AbortController();
  using changes = new LogChanges(log, createProgram(), reader.signal);
  const waiter = changes.listen();
  reader.abort();
  await waiter.changed;
  waiter.close();
  await changes.listen().changed;
});
