import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { RoleStore } from "./role-store.ts";

let home: string;
beforeEach(async () => void (home = await mkdtemp(join(tmpdir(), "role-"))));
afterEach(() => rm(home, { recursive: true, force: true }));

test("an action that began earlier does not undo a newer assignment", async () => {
  const store = new RoleStore(home);
  const older = { role: "primary", primaryHost: "10.0.0.1", epoch: 3 } as const;
  const newer = { role: "replica", primaryHost: "10.0.0.2", epoch: 4 } as const;
  await store.save(older);
  expect(() => store.require(older)).not.toThrow();
  await Promise.all([store.save(newer), store.save(older)]);
  expect(store.record).toBe(newer);
  expect(() => store.require(older)).toThrow("epoch 3: another role was assigned in the meantime");
  const next = new RoleStore(home);
  await next.load();
  expect(next.record).toEqual(newer);
});

test("another role of the same epoch replaces the record", async () => {
  const store = new RoleStore(home);
  const primary = { role: "primary", primaryHost: "10.0.0.1", epoch: 3 } as const;
  const replica = { role: "replica", primaryHost: "10.0.0.2", epoch: 3 } as const;
  await store.save(primary);
  await store.save(replica);
  expect(store.record).toBe(replica);
});

test("an action does not undo its own assignment epoch that was recorded after it began", async () => {
  const store = new RoleStore(home);
  const began = { role: "replica", primaryHost: "10.0.0.2", epoch: 3 } as const;
  const meanwhile = { role: "replica", primaryHost: "10.0.0.3", epoch: 3 } as const;
  const promotion = { role: "primary", primaryHost: "10.0.0.1", epoch: 3 } as const;
  await store.save(began);
  await Promise.all([store.save(meanwhile), store.save(promotion, began)]);
  expect(store.record).toBe(meanwhile);
  expect(() => store.require(promotion)).toThrow("epoch 3: another role was assigned in the meantime");
  await store.save(promotion, meanwhile);
  expect(() => store.require(promotion)).not.toThrow();
});
