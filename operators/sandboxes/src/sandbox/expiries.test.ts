import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createVirtualClock, type VirtualClock } from "@keelson/api-machinery/testing";
import { silentLogger } from "@keelson/controller";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { type Expiries, expiryGraceMs, openExpiries } from "./expiries.ts";

let dir: string;
let clock: VirtualClock;
let ended: string[];
const [one, other] = ["1".repeat(32), "2".repeat(32)];

const open = (): Expiries =>
  openExpiries({
    file: join(dir, "expiries.json"),
    clock,
    log: silentLogger,
    end: (id) => Promise.resolve(void ended.push(id)),
  });

beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "expiries-"));
  clock = createVirtualClock();
  ended = [];
});

afterEach(() => rmSync(dir, { recursive: true, force: true }));

describe("expiry times", () => {
  it("fire in order, once each, after the grace period, with one timer", async () => {
    const expiries = open();
    expiries.adopt(other, clock.now() + 20_000);
    expiries.adopt(one, clock.now() + 10_000);
    expect(clock.pendingTimers).toBe(1);
    await clock.advance(10_000 + expiryGraceMs - 1);
    expect(ended).toEqual([]);
    await clock.advance(1);
    expect(ended).toEqual([one]);
    await clock.advance(60_000);
    expect(ended).toEqual([one, other]);
    expect(clock.pendingTimers).toBe(0);
  });

  it("can be moved and removed, and persist for the next process", async () => {
    const first = open();
    first.adopt(one, clock.now() + 1_000);
    first.adopt(other, clock.now() + 1_000);
    await first.set(one, clock.now() + 30_000);
    await first.set(other, undefined);
    first.stop();
    const next = open();
    next.adopt(one, clock.now() + 1_000);
    next.adopt(other, clock.now() + 1_000);
    expect([next.of(one), next.of(other)]).toEqual([clock.now() + 30_000, undefined]);
    await clock.advance(20_000);
    expect(ended).toEqual([]);
    await clock.advance(20_000);
    expect(ended).toEqual([one]);
  });

  it("fire immediately if they passed while no agent ran, and fall back to the creation's if the file is damaged", async () => {
    writeFileSync(join(dir, "expiries.json"), "{");
    const expiries = open();
    expiries.adopt(one, clock.now() - 60_000);
    await clock.advance(0);
    expect(ended).toEqual([one]);
  });

  it("are removed with their sandbox", async () => {
    const expiries = open();
    await expiries.set(one, clock.now() + 1_000);
    await expiries.forget(one);
    expect([expiries.of(one), clock.pendingTimers]).toEqual([undefined, 0]);
    expiries.stop();
    expect(open().of(one)).toBeUndefined();
  });
});
