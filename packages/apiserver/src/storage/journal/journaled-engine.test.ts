import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync, writeSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { afterEach, describe, expect, it } from "vitest";
import type { Batch, Engine } from "../database/engine.ts";
import { LmdbEngine } from "../database/lmdb-engine.ts";
import { StorageError } from "../storage-error.ts";
import { Journal } from "./journal.ts";
import type { WriteAt } from "./journal-file.ts";
import { JournaledEngine } from "./journaled-engine.ts";

const total = (parts: Iterable<number>): number => [...parts].reduce((sum, part) => sum + part, 0);

const cleanups: (() => void | Promise<void>)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

function folder(): string {
  const dir = mkdtempSync(join(tmpdir(), "keelson-journal-"));
  cleanups.push(() => rmSync(dir, { recursive: true, force: true }));
  return dir;
}

/** A database whose disk can be full and whose commits can be delayed. */
class TestDatabase extends LmdbEngine {
  isFull = false;
  commits = 0;
  hold: Promise<void> | undefined;
  onCommitted = (): void => undefined;
  #last: Promise<void> | undefined;

  override async commit(batch: Batch): Promise<void> {
    await this.hold;
    if (this.isFull) throw new StorageError("StorageFull", "full");
    this.commits += 1;
    this.#last = super.commit(batch);
    await this.#last;
    this.onCommitted();
  }

  override async close(): Promise<void> {
    await this.#last;
    await super.close();
  }
}

function openOn(
  dir: string,
  options: { gatherBytes?: number; fileBytes?: number; isFlushed?: boolean; writeAt?: WriteAt } = {},
) {
  const database = new TestDatabase({ dir, sync: false });
  const { gatherBytes = 1_000_000, ...journalOptions } = options;
  const journal = new Journal({ dir, ...journalOptions });
  const engine = new JournaledEngine({ database, journal, gatherBytes });
  /** Ends as SIGKILL would: nothing more goes into the database. */
  const kill = async (): Promise<void> => {
    await database.close();
    await journal.close();
  };
  return { engine, database, journal, kill };
}

/** The commit that follows `engine`'s last, with a log entry for each write. */
function batchAfter(
  engine: Engine,
  writes: readonly (readonly [key: string, value: string | undefined])[],
  compacted = 1,
): Batch {
  const { revision, compacted: dropAfter } = engine.position;
  return {
    objects: writes.map(([key, value]) => ({ key, value: value === undefined ? undefined : Buffer.from(value) })),
    log: writes.map(([key], index) => ({ revision: revision + 1 + index, value: Buffer.from(key) })),
    position: { revision: revision + writes.length, compacted: Math.max(compacted, dropAfter) },
    dropAfter,
  };
}

const put = (engine: Engine, ...writes: readonly (readonly [string, string | undefined])[]): Promise<void> =>
  engine.commit(batchAfter(engine, writes));

const objectsOf = (view: Pick<Engine, "range">, start = "", end?: string): string[] =>
  [...view.range(start, end)].map(({ key, value }) => `${key}=${Buffer.from(value).toString()}`);
const keysOf = (view: Pick<Engine, "range">): string[] => [...view.range("", undefined)].map(({ key }) => key);
const logOf = (engine: Engine, after: number, newestFirst?: boolean): number[] =>
  [...engine.log(after, newestFirst)].map(({ revision }) => revision);

describe("JournaledEngine", () => {
  it("recovers acknowledged commits from the journal after a crash before any database flush", async () => {
    const dir = folder();
    const first = openOn(dir);
    await put(first.engine, ["a", "1"], ["b", "1"]);
    await put(first.engine, ["a", "2"], ["b", undefined]);
    expect(first.database.commits).toBe(0);
    await first.kill();
    const second = openOn(dir);
    expect(second.engine.position.revision).toBe(5);
    expect(objectsOf(second.engine)).toEqual(["a=2"]);
    expect(logOf(second.engine, 2)).toEqual([3, 4, 5]);
    await second.engine.close();
    const database = new LmdbEngine({ dir, sync: false });
    cleanups.push(() => database.close());
    expect(database.position.revision).toBe(5);
    expect(objectsOf(database)).toEqual(["a=2"]);
  });

  it("merges keys in database order, including keys beyond U+FFFF", async () => {
    const { engine, database } = openOn(folder());
    cleanups.push(() => engine.close());
    const keys = ["a", "b", "b/\u{1f600}", "b/\uffee", "b/z", "c"];
    await database.commit(
      batchAfter(
        engine,
        keys.filter((_, index) => index % 2 === 0).map((key) => [key, "old"] as const),
      ),
    );
    const below = objectsOf(database).length;
    const gathered = new JournaledEngine({ database, journal: new Journal({ dir: folder() }), gatherBytes: 1_000_000 });
    await gathered.commit(
      batchAfter(
        gathered,
        keys.filter((_, index) => index % 2 === 1).map((key) => [key, "new"] as const),
      ),
    );
    expect(below).toBe(3);
    expect(objectsOf(gathered)).toEqual(["a=old", "b=new", "b/z=old", "b/\uffee=new", "b/\u{1f600}=old", "c=new"]);
    expect(total(gathered.count("b", "c"))).toBe(4);
  });

  it("keeps a pinned state unchanged by later commits and database flushes", async () => {
    const { engine, database } = openOn(folder(), { gatherBytes: 1 });
    cleanups.push(() => engine.close());
    await put(engine, ["a", "1"], ["b", "1"]);
    const pin = engine.pin();
    await put(engine, ["a", "2"], ["c", "1"], ["b", undefined]);
    await put(engine, ["x".repeat(1_000), "straight into the database"]);
    expect(database.position.revision).toBe(engine.position.revision);
    expect(objectsOf(pin)).toEqual(["a=1", "b=1"]);
    expect(total(pin.count("", undefined))).toBe(2);
    pin.release();
  });

  it("shows each log entry once, also right after a database flush", async () => {
    const { engine, database } = openOn(folder(), { gatherBytes: 1 });
    let log: number[] | undefined;
    database.onCommitted = () => (log ??= logOf(engine, 1));
    await put(engine, ["a", "1"], ["b", "1"]);
    await engine.close();
    expect(log).toEqual([2, 3]);
  });

  it("rejects commits while the database is full, keeps acknowledged ones, and resumes when there is space", async () => {
    const dir = folder();
    const { engine, database, kill } = openOn(dir, { gatherBytes: 100 });
    database.isFull = true;
    await put(engine, ["a", "x".repeat(200)]);
    const accepted = ["a"];
    // A commit may succeed before the database reports that it is full.
    const fill = async (): Promise<void> => {
      for (let index = 0; index < 1_000; index++) {
        const key = `b${String(index).padStart(3, "0")}`;
        await put(engine, [key, "1"]);
        accepted.push(key);
      }
    };
    await expect(fill()).rejects.toMatchObject({ code: "StorageFull" });
    await expect(put(engine, ["c", "1"])).rejects.toMatchObject({ code: "StorageFull" });
    expect(keysOf(engine)).toEqual(accepted);
    database.isFull = false;
    await put(engine, ["d", "1"]);
    expect(keysOf(engine)).toEqual([...accepted, "d"]);
    await kill();
    const again = openOn(dir);
    cleanups.push(() => again.engine.close());
    expect(keysOf(again.engine)).toEqual([...accepted, "d"]);
  });

  it("rejects a commit whose journal write failed and never recovers it", async () => {
    for (const fault of ["ENOSPC", "EIO"] as const) {
      const dir = folder();
      let isBroken = false;
      const file = (handle: number, bytes: Uint8Array, position: number): Promise<number> => {
        return Promise.resolve(writeSync(handle, bytes, 0, bytes.length, position));
      };
      const { engine, kill } = openOn(dir, {
        async writeAt(handle, bytes, position) {
          if (!isBroken || bytes.length <= 4) return file(handle, bytes, position);
          // The bytes are written, their flush fails.
          await file(handle, bytes, position);
          throw Object.assign(new Error(fault), { code: fault });
        },
      });
      await put(engine, ["a", "1"]);
      isBroken = true;
      const refused = put(engine, ["b", "1"]);
      await (fault === "ENOSPC"
        ? expect(refused).rejects.toMatchObject({ code: "StorageFull" })
        : expect(refused).rejects.toThrow(fault));
      expect(objectsOf(engine)).toEqual(["a=1"]);
      await kill();
      const again = openOn(dir);
      expect(objectsOf(again.engine)).toEqual(["a=1"]);
      expect(again.engine.position.revision).toBe(2);
      await again.engine.close();
    }
  });

  it("rewrites a journal file only after the database has its records", async () => {
    const dir = folder();
    const { engine, database, kill } = openOn(dir, { fileBytes: 400 });
    let release = (): void => undefined;
    database.hold = new Promise((resolve) => (release = resolve));
    let answered = 0;
    const writing = (async () => {
      for (let index = 0; index < 12; index++) {
        await put(engine, [`key-${index}`, "x".repeat(40)]);
        answered += 1;
      }
    })();
    // Two files hold four of these; the fifth waits for the database.
    await new Promise((resolve) => setImmediate(resolve));
    database.hold = undefined;
    release();
    await writing;
    expect(answered).toBe(12);
    expect(database.commits).toBeGreaterThan(0);
    await kill();
    const again = openOn(dir, { fileBytes: 400 });
    cleanups.push(() => again.engine.close());
    expect(objectsOf(again.engine)).toHaveLength(12);
  });

  it("without flushes, allocates no space in advance and lets timers run between commits", async () => {
    const dir = folder();
    const { engine, kill } = openOn(dir, { isFlushed: false });
    expect(statSync(join(dir, "journal-0")).size).toBe(0);
    let isWriting = true;
    const timer = new Promise<void>((resolve) => {
      setImmediate(() => {
        isWriting = false;
        resolve();
      });
    });
    let commits = 0;
    while (isWriting && commits < 1_000) await put(engine, [`k${commits++}`, "1"]);
    await timer;
    expect(commits).toBeLessThan(1_000);
    await kill();
    const again = openOn(dir);
    cleanups.push(() => again.engine.close());
    expect(objectsOf(again.engine)).toHaveLength(commits);
  });

  it("works without a journal if there is no space for one", async () => {
    const { engine, database } = openOn(folder(), { fileBytes: 0 });
    cleanups.push(() => engine.close());
    await put(engine, ["a", "1"]);
    expect(database.commits).toBe(1);
    expect(objectsOf(engine)).toEqual(["a=1"]);
  });

  it("does not start if commits are missing between the database and the journal", async () => {
    const dir = folder();
    const first = openOn(dir);
    await put(first.engine, ["a", "1"]);
    await put(first.engine, ["b", "1"]);
    await first.kill();
    const content = readFileSync(join(dir, "journal-0"));
    writeFileSync(join(dir, "journal-0"), content.subarray(content.indexOf("KSJ1", 4)));
    expect(() => openOn(dir)).toThrow("the journal continues after revision 2, the database ends at 1");
  });

  it("behaves like a map with a log across crashes, however much was flushed", {
    timeout: 60_000,
  }, async () => {
    const step = fc.oneof(
      {
        weight: 8,
        arbitrary: fc.array(fc.tuple(fc.constantFrom("a", "b", "c", "d/e", "d/f"), fc.boolean()), {
          minLength: 1,
          maxLength: 4,
        }),
      },
      { weight: 1, arbitrary: fc.constant("crash" as const) },
      { weight: 1, arbitrary: fc.constant("compact" as const) },
    );
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 30 }), fc.constantFrom(1, 150, 1_000_000), async (steps, gatherBytes) => {
        const dir = mkdtempSync(join(tmpdir(), "keelson-journal-"));
        const options = { gatherBytes, fileBytes: 600 };
        let opened = openOn(dir, options);
        try {
          const model = new Map<string, string>();
          for (const [index, each] of steps.entries()) {
            const { engine } = opened;
            if (each === "crash") {
              await opened.kill();
              opened = openOn(dir, options);
            } else if (each === "compact") {
              await engine.commit(batchAfter(engine, [["z", String(index)]], engine.position.revision));
              model.set("z", String(index));
            } else {
              const writes = new Map(each.map(([key, isPut]) => [key, isPut ? String(index) : undefined] as const));
              await put(engine, ...writes);
              for (const [key, value] of writes) {
                if (value === undefined) model.delete(key);
                else model.set(key, value);
              }
            }
            check(opened.engine, model);
          }
        } finally {
          await opened.engine.close();
          rmSync(dir, { recursive: true, force: true });
        }
      }),
      { numRuns: 30 },
    );
  });
});

function check(engine: Engine, model: ReadonlyMap<string, string>): void {
  const expected = [...model].map(([key, value]) => `${key}=${value}`).sort();
  expect(objectsOf(engine)).toEqual(expected);
  expect(objectsOf(engine, "b", "d/f")).toEqual(expected.filter((text) => text >= "b" && text < "d/f"));
  expect(total(engine.count("b", undefined))).toBe(expected.filter((text) => text >= "b").length);
  for (const key of ["a", "d/e"]) expect(engine.get(key)?.toString()).toBe(model.get(key));
  const { revision, compacted } = engine.position;
  const log = Array.from({ length: revision - compacted }, (_, index) => compacted + 1 + index);
  expect(logOf(engine, compacted)).toEqual(log);
  expect(logOf(engine, compacted, true)).toEqual(log.reverse());
}
