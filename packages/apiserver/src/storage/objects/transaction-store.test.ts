import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { isExpired, type KubernetesObject } from "@keelson/api-machinery";
import { createVirtualClock } from "@keelson/api-machinery/testing";
import fc from "fast-check";
import { afterEach, describe, expect, it, vi } from "vitest";
import type { Batch } from "../database/engine.ts";
import { LmdbEngine } from "../database/lmdb-engine.ts";
import { openStore } from "../open-store.ts";
import type { Store, StoreEvent } from "../store.ts";
import { type StoreOptions, TransactionStore } from "./transaction-store.ts";

const total = (parts: Iterable<number>): number => [...parts].reduce((sum, part) => sum + part, 0);

const clock = createVirtualClock();
const cleanups: (() => void | Promise<void>)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

function folder(): string {
  const dir = mkdtempSync(join(tmpdir(), "keelson-store-"));
  cleanups.push(() => rmSync(dir, { recursive: true, force: true }));
  return dir;
}

async function open(options: Partial<StoreOptions> & { dir?: string } = {}): Promise<Store> {
  const store = await openStore({ clock, sync: false, ...options, dir: options.dir ?? folder() });
  cleanups.push(() => store.close());
  return store;
}

const thing = (name: string, value = ""): KubernetesObject & { data: unknown } => ({
  apiVersion: "v1",
  kind: "Thing",
  metadata: { name },
  data: { value },
});

async function put(store: Store, key: string, value = ""): Promise<number> {
  const result = await store.write(key, store.get(key)?.revision ?? 0, thing(key, value));
  if (!result.ok) throw new Error("conflict");
  return result.stored.revision;
}

const brief = (events: readonly StoreEvent[]): string[] =>
  events.map(
    ({ type, revision, object, previous }) => `${type} ${object.key}@${revision}${previous ? ` was ${previous.revision}` : ""}`,
  );

describe("TransactionStore", () => {
  it("creates, replaces and deletes by expected revision and returns the current object on a mismatch", async () => {
    const store = await open();
    const created = await store.write("/things/a/x", 0, thing("x", "1"));
    expect(created).toMatchObject({ ok: true, stored: { revision: 2 } });
    expect(await store.write("/things/a/x", 0, thing("x"))).toMatchObject({ ok: false, current: { revision: 2 } });
    expect(await store.write("/things/a/x", 2, thing("x", "2"))).toMatchObject({ ok: true, stored: { revision: 3 } });
    expect(await store.write("/things/a/x", 2, undefined)).toMatchObject({ ok: false, current: { revision: 3 } });
    expect(await store.write("/things/a/x", 3, undefined)).toMatchObject({ ok: true, stored: { revision: 4 } });
    expect(store.get("/things/a/x")).toBeUndefined();
    expect(await store.write("/things/a/x", 0, undefined)).toEqual({ ok: false, current: undefined });
    expect(store.revision).toBe(4);
  });

  it("keeps bytes and object equal, with the revision in the metadata, frozen and shared", async () => {
    const store = await open({ cacheBytes: 1_000_000 });
    await put(store, "/things/a/x", "ä");
    const stored = store.get("/things/a/x");
    expect(JSON.parse(Buffer.from(stored?.bytes ?? []).toString())).toEqual(stored?.object);
    expect(stored?.object.metadata.resourceVersion).toBe("2");
    expect(Object.isFrozen(stored?.object.metadata)).toBe(true);
    expect(store.get("/things/a/x")?.object).toBe(stored?.object);
    expect(Buffer.from(stored?.bytes ?? []).toString()).toMatch(
      /^{"apiVersion":"v1","kind":"Thing","metadata":{"resourceVersion":"2"/,
    );
  });

  it("decides a second write to a key against the first one in flight", async () => {
    const store = await open();
    const first = store.write("/things/a/x", 0, thing("x", "first"));
    const second = store.write("/things/a/x", 0, thing("x", "second"));
    expect(await second).toMatchObject({ ok: false, current: { revision: 2, object: { data: { value: "first" } } } });
    expect((await first).ok).toBe(true);
  });

  it("hides a write from readers and watchers until it is durable", async () => {
    const store = await open();
    const seen: string[] = [];
    store.watch("/things/", 1, (events) => seen.push(...brief(events)));
    const write = put(store, "/things/a/x");
    expect(store.get("/things/a/x")).toBeUndefined();
    expect(store.list("/things/").items).toEqual([]);
    expect(seen).toEqual([]);
    await write;
    expect(seen).toEqual(["put /things/a/x@2"]);
    expect(store.list("/things/").items.length).toBe(1);
  });

  it("lists a prefix in order and in pages", async () => {
    const store = await open();
    for (const name of ["c", "a", "e", "b", "d"]) await put(store, `/things/n/${name}`);
    await put(store, "/thingsb/n/x");
    const first = store.list("/things/", { limit: 2 });
    expect(first.items.map(({ key }) => key)).toEqual(["/things/n/a", "/things/n/b"]);
    expect(first).toMatchObject({ revision: 7, next: "/things/n/b" });
    const rest = store.list("/things/", { startAfter: first.next ?? "" });
    expect(rest.items.map(({ key }) => key)).toEqual(["/things/n/c", "/things/n/d", "/things/n/e"]);
    expect(rest.next).toBeUndefined();
  });

  it("reads a past state as far back as the log reaches", async () => {
    const store = await open({ historyEvents: 5 });
    await put(store, "/things/n/a", "1");
    const at = await put(store, "/things/n/b", "1");
    await store.write("/things/n/a", 2, undefined);
    await put(store, "/things/n/b", "2");
    await put(store, "/things/n/c", "1");
    using past = await store.pinAt("/things/", at);
    const { items } = past.list("/things/", { limit: 10 });
    expect(items.map(({ key, revision }) => `${key}@${revision}`)).toEqual(["/things/n/a@2", "/things/n/b@3"]);
    expect(items[1]?.object).toMatchObject({ data: { value: "1" } });
    expect(past.revision).toBe(at);
    expect(total(past.countAfter("/things/", "/things/n/a"))).toBe(1);
    for (let i = 0; i < 6; i++) await put(store, "/other/n/x", String(i));
    await expect(store.pinAt("/things/", at)).rejects.toThrow(/too old resource version: 3 \(\d+\)/);
    // A pinned state survives compaction.
    expect(past.list("/things/", { limit: 10 }).items.map(({ key }) => key)).toEqual(["/things/n/a", "/things/n/b"]);
  });

  it("replays from the log and continues live without gap or duplicate, even across a restart", async () => {
    const dir = folder();
    let store = await open({ dir });
    await put(store, "/things/n/a", "1");
    await put(store, "/things/n/a", "2");
    await put(store, "/others/n/z");
    await store.write("/things/n/a", 3, undefined);
    await store.close();
    store = await open({ dir });
    expect(store.revision).toBe(5);
    const seen: StoreEvent[] = [];
    store.watch("/things/", 2, (events) => seen.push(...events));
    await put(store, "/things/n/a", "3");
    expect(brief(seen)).toEqual(["put /things/n/a@3 was 2", "delete /things/n/a@5 was 3", "put /things/n/a@6"]);
    expect(seen[0]?.object.object).toMatchObject({ data: { value: "2" } });
    expect(seen[1]?.object.object).toMatchObject({ metadata: { resourceVersion: "5" }, data: { value: "2" } });
    expect(JSON.parse(Buffer.from(seen[1]?.object.bytes ?? []).toString())).toEqual(seen[1]?.object.object);
  });

  it("replays a long log one slice per turn, then the events committed meanwhile", { timeout: 30_000 }, async () => {
    const store = await open();
    const names = Array.from({ length: 1_300 }, (_, index) => `n${index}`);
    await Promise.all(names.map((name) => put(store, `/things/n/${name}`)));
    const batches: number[] = [];
    const seen: StoreEvent[] = [];
    let inThisTurn = 0;
    const watch = store.watch("/things/", 1, (events, isReplay) => {
      batches.push(events.length);
      seen.push(...events);
      if (inThisTurn++ > 0) throw new Error("two slices in one turn");
      setImmediate(() => (inThisTurn = 0));
      if (isReplay === (events.at(-1)?.object.key === "/things/n/live")) throw new Error("isReplay is wrong");
    });
    expect(seen).toEqual([]);
    const closed: unknown[] = [];
    store.watch("/things/", 1, (events) => closed.push(events)).close();
    const ended = vi.waitFor(() => expect(seen.at(-1)?.object.key).toBe("/things/n/live"), { timeout: 25_000, interval: 1 });
    expect(watch.isReplaying).toBe(true);
    await put(store, "/things/n/live");
    await ended;
    expect(watch.isReplaying).toBe(false);
    expect(seen.map(({ revision }) => revision)).toEqual(Array.from({ length: 1_301 }, (_, index) => index + 2));
    expect(batches).toEqual([250, 250, 250, 250, 250, 50, 1]);
    expect(closed).toEqual([]);
    await put(store, "/things/n/last");
    expect(brief(seen.slice(-1))).toEqual(["put /things/n/last@1303"]);
  });

  it("keeps a pinned state while writes continue, and shows the newest state to others", async () => {
    const store = await open();
    for (const name of ["a", "b", "c"]) await put(store, `/things/n/${name}`, "1");
    const state = store.pin();
    await put(store, "/things/n/b", "2");
    const again = store.pin();
    await store.write("/things/n/a", 2, undefined);
    await put(store, "/things/n/d");
    const pages: string[] = [];
    for (let startAfter: string | undefined, isDone = false; !isDone; ) {
      const { items, next } = state.list("/things/", { limit: 2, ...(startAfter === undefined ? {} : { startAfter }) });
      pages.push(items.map(({ key, revision }) => `${key}@${revision}`).join(" "));
      startAfter = next;
      isDone = next === undefined;
    }
    expect(pages).toEqual(["/things/n/a@2 /things/n/b@3", "/things/n/c@4"]);
    expect(state.revision).toBe(4);
    expect(total(state.countAfter("/things/", "/things/n/a"))).toBe(2);
    expect(again.list("/things/", { limit: 9 }).items.map(({ revision }) => revision)).toEqual([2, 5, 4]);
    expect(store.list("/things/").items.map(({ revision }) => revision)).toEqual([5, 4, 7]);
    state[Symbol.dispose]();
    state[Symbol.dispose]();
    await store.close();
    expect(() => again.list("/things/", { limit: 1 })).toThrow("the storage is closed");
    again[Symbol.dispose]();
  });

  it("delivers one batch of events per commit, the same array to all watchers of a resource", async () => {
    const store = await open();
    const batches: (readonly StoreEvent[])[] = [];
    store.watch("/things/", 1, (events) => batches.push(events));
    store.watch("/things/", 1, (events) => batches.push(events));
    await Promise.all(["a", "b", "c"].map((name) => put(store, `/things/n/${name}`)));
    expect(batches.map((batch) => batch.length)).toEqual([3, 3]);
    expect(batches[0]).toBe(batches[1]);
  });

  it("commits writes of several callbacks of a turn together once there are several writers", async () => {
    const store = await open();
    const batches: number[] = [];
    store.watch("/things/", 1, (events) => batches.push(events.length));
    const inCallback = (name: string): Promise<number> =>
      new Promise((resolve, reject) => {
        setImmediate(() => void put(store, `/things/n/${name}`).then(resolve, reject));
      });
    await Promise.all(["a", "b"].map((name) => put(store, `/things/n/${name}`)));
    await Promise.all(["c", "d", "e"].map(inCallback));
    await put(store, "/things/n/f");
    expect(batches).toEqual([2, 3, 1]);
  });

  it("delivers nothing to a closed watch and lets a listener open and close watches", async () => {
    const store = await open();
    const seen: string[] = [];
    const outer = store.watch("/things/", 1, (events) => {
      outer.close();
      store.watch("/things/", 1, (again) => seen.push(...brief(again)));
      expect(events.length).toBe(1);
    });
    await put(store, "/things/n/a");
    await put(store, "/things/n/b");
    expect(seen).toEqual(["put /things/n/a@2", "put /things/n/b@3"]);
  });

  it("drops events by age and answers Expired with the revisions", async () => {
    const time = createVirtualClock();
    const store = await open({ clock: time, historyMs: 60_000 });
    await put(store, "/things/n/a");
    await time.advance(61_000);
    await put(store, "/things/n/b");
    await put(store, "/things/n/c");
    let error: unknown;
    try {
      store.watch("/things/", 1, () => undefined);
    } catch (caught) {
      error = caught;
    }
    expect(isExpired(error)).toBe(true);
    expect(error).toMatchObject({ message: "too old resource version: 1 (2)", code: 410, reason: "Expired" });
    const seen: string[] = [];
    store.watch("/things/", 2, (events) => seen.push(...brief(events)));
    expect(seen).toEqual(["put /things/n/b@3", "put /things/n/c@4"]);
  });

  it("keeps events for five minutes by default, as kube-apiserver does", async () => {
    const time = createVirtualClock();
    const store = await open({ clock: time });
    await put(store, "/things/n/a");
    await time.advance(299_000);
    await put(store, "/things/n/b");
    expect(() => store.watch("/things/", 1, () => undefined)).not.toThrow();
    await time.advance(2_000);
    await put(store, "/things/n/c");
    expect(() => store.watch("/things/", 1, () => undefined)).toThrow("too old resource version: 1 (2)");
  });

  it("rejects everything pending when a commit fails, without effect", async () => {
    const dir = folder();
    let isFull = false;
    class FailingEngine extends LmdbEngine {
      override commit(batch: Batch): Promise<void> {
        return isFull ? Promise.reject(new Error("no space left on device")) : super.commit(batch);
      }
    }
    const store = new TransactionStore(new FailingEngine({ dir, sync: false }), { clock });
    cleanups.push(() => store.close());
    await put(store, "/things/n/a", "1");
    const seen: string[] = [];
    store.watch("/things/", 2, (events) => seen.push(...brief(events)));
    isFull = true;
    const writes = [
      store.write("/things/n/a", 2, thing("a", "2")),
      store.write("/things/n/b", 0, thing("b")),
      store.write("/things/n/a", 2, undefined),
    ];
    const results = await Promise.allSettled(writes.slice(0, 2));
    for (const result of results) {
      expect(result).toMatchObject({
        status: "rejected",
        reason: { code: 500, message: expect.stringContaining("no space left") },
      });
    }
    // The third conflicted with the first; when that was rejected, it was decided again and failed for the same reason.
    await expect(writes[2]).rejects.toMatchObject({ code: 500 });
    expect(store.get("/things/n/a")?.revision).toBe(2);
    expect(store.revision).toBe(2);
    isFull = false;
    expect((await store.write("/things/n/b", 0, thing("b"))).ok).toBe(true);
    expect(seen.length).toBe(1);
    expect(store.revision).toBeGreaterThan(2);
  });

  it("is opened by one owner at a time", async () => {
    const dir = folder();
    const store = await open({ dir });
    await expect(open({ dir })).rejects.toThrow(`is in use by process ${process.pid}`);
    await store.close();
    await (await open({ dir })).close();
  });

  it("behaves like a plain map with a log for any history of writes", { timeout: 30_000 }, async () => {
    const write = fc.record({ key: fc.constantFrom("a", "b", "c"), isDelete: fc.boolean(), wait: fc.boolean() });
    await fc.assert(
      fc.asyncProperty(fc.array(write, { maxLength: 40 }), fc.nat(40), async (writes, from) => {
        const dir = mkdtempSync(join(tmpdir(), "keelson-store-"));
        try {
          let store = await openStore({ dir, clock, sync: false, cacheBytes: 200 });
          const model: { states: Map<string, number>[]; events: string[] } = { states: [new Map()], events: [] };
          const live: string[] = [];
          store.watch("", 1, (events) => live.push(...brief(events)));
          const state = new Map<string, number>();
          const answers: Promise<unknown>[] = [];
          for (const { key: name, isDelete, wait } of writes) {
            const key = `/t/n/${name}`;
            const expected = state.get(key) ?? 0;
            if (isDelete && expected === 0) continue;
            const revision = model.events.length + 2;
            answers.push(store.write(key, expected, isDelete ? undefined : thing(name, String(revision))));
            if (isDelete) state.delete(key);
            else state.set(key, revision);
            model.states.push(new Map(state));
            model.events.push(`${isDelete ? "delete" : "put"} ${key}@${revision}${expected ? ` was ${expected}` : ""}`);
            if (wait) await Promise.all(answers);
          }
          await Promise.all(answers);
          expect(live).toEqual(model.events);
          const check = async (): Promise<void> => {
            const at = Math.min(from, model.events.length);
            const replay: string[] = [];
            store.watch("/t/", at + 1, (events) => replay.push(...brief(events))).close();
            expect(replay).toEqual(model.events.slice(at));
            using pinned = await store.pinAt("/t/", at + 1);
            const past = pinned.list("/t/", { limit: 1_000 }).items;
            expect(new Map(past.map(({ key, revision }) => [key, revision]))).toEqual(model.states[at]);
            expect(past.map(({ object }) => object.metadata.resourceVersion)).toEqual(
              past.map(({ revision }) => String(revision)),
            );
          };
          await check();
          await store.close();
          store = await openStore({ dir, clock, sync: false });
          await check();
          await store.close();
        } finally {
          rmSync(dir, { recursive: true, force: true });
        }
      }),
      { numRuns: 25 },
    );
  });
});
