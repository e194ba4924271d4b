import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { parameters, type PostgresPod, PostgresPods } from "./testing/postgres-pod.ts";

const keys = Array.from({ length: 20 }, (_, index) => `key-${index}`);

let servers: PostgresPods;
beforeAll(async () => {
  servers = await PostgresPods.install();
});
afterAll(() => servers.uninstall());

const isInSync = async ({ engine }: PostgresPod): Promise<string | undefined> =>
  (await engine.role().catch(() => undefined))?.info["isInSync"];

/** Starts a primary and two replicas that follow it. */
async function startGroup(): Promise<readonly [PostgresPod, PostgresPod, PostgresPod]> {
  const [primary, first, second] = await servers.start(3);
  if (primary === undefined || first === undefined || second === undefined) throw new Error("start: returned too few Pods");
  await primary.engine.assign({ role: "primary", primaryHost: primary.host, epoch: 1 });
  for (const replica of [first, second]) {
    await replica.engine.assign({ role: "replica", primaryHost: primary.host, epoch: 1 });
    await expect.poll(() => isInSync(replica)).toBe("true");
  }
  return [primary, first, second];
}

describe("a takeover", { timeout: 300_000 }, () => {
  it("has the log that only another replica has received", async () => {
    const pods = await startGroup();
    const [primary, chosen, other] = pods;
    try {
      // The chosen replica receives nothing any more, as behind a broken network.
      await chosen.run([["ALTER SYSTEM SET primary_conninfo = ''"], ["SELECT pg_reload_conf()"]]);
      await expect.poll(() => chosen.run([["SELECT pid FROM pg_stat_wal_receiver"]])).toEqual([]);
      for (const key of keys) expect(await primary.write(key)).toBe(true);
      await expect.poll(() => other.has(keys.at(-1) ?? "")).toBe(true);
      expect(await chosen.has(keys.at(-1) ?? "")).toBe(false);
      await primary.kill();
      await chosen.run([["ALTER SYSTEM RESET primary_conninfo"]]);

      const order = { target: chosen.host, others: [other.host], epoch: 2, timeoutMs: 20_000 };
      await expect.poll(() => chosen.engine.failover(order)).toEqual({ ok: true });
      for (const key of keys) expect(await chosen.has(key), key).toBe(true);
      await other.engine.assign({ role: "replica", primaryHost: chosen.host, epoch: 2 });
      expect(await chosen.write("after")).toBe(true);
      await expect.poll(() => other.has("after")).toBe(true);
    } finally {
      await servers.stop(pods);
    }
  });

  it("is refused to a replica that missed the last one, and has the commits of the later timeline", async () => {
    const pods = await startGroup();
    const [first, late, second] = pods;
    try {
      await late.run([["ALTER SYSTEM SET primary_conninfo = ''"], ["SELECT pg_reload_conf()"]]);
      await first.kill();
      const order = { target: second.host, others: [], epoch: 2, timeoutMs: 20_000 };
      await expect.poll(() => second.engine.failover(order)).toEqual({ ok: true });
      await first.crash();
      await first.engine.assign({ role: "replica", primaryHost: second.host, epoch: 2 });
      expect(await second.write("kept")).toBe(true);
      await expect.poll(() => first.has("kept"), { timeout: 60_000 }).toBe(true);
      await second.kill();
      expect((await first.engine.role()).info).toMatchObject({ timeline: "2" });

      const next = { epoch: 3, timeoutMs: 20_000, isPrimaryDown: true };
      const refused = await late.engine.failover({ ...next, target: late.host, others: [first.host] });
      expect(refused).toMatchObject({ ok: false, error: expect.stringContaining("timeline 2") });
      const taken = () => first.engine.failover({ ...next, target: first.host, others: [late.host] });
      await expect.poll(taken, { timeout: 60_000 }).toEqual({ ok: true });
      expect(await first.has("kept")).toBe(true);
    } finally {
      await servers.stop(pods);
    }
  });

  it("waits for a replica that may have the only copy of a commit that a quorum has confirmed", async () => {
    const pods = await startGroup();
    const [primary, chosen, other] = pods;
    const synchronous = { ...parameters, synchronous_standby_names: "ANY 1 (*)" };
    try {
      for (const { engine } of [chosen, other, primary])
        expect(await engine.reload(synchronous, "synchronous")).toEqual({ ok: true });
      await chosen.run([["ALTER SYSTEM SET primary_conninfo = ''"], ["SELECT pg_reload_conf()"]]);
      await expect.poll(() => chosen.run([["SELECT pid FROM pg_stat_wal_receiver"]])).toEqual([]);
      expect(await primary.write("acknowledged")).toBe(true);
      await other.kill();
      await primary.kill();
      await chosen.run([["ALTER SYSTEM RESET primary_conninfo"]]);

      const order = { target: chosen.host, others: [], epoch: 2, timeoutMs: 20_000, replicas: 2 };
      const refused = { ok: false, error: expect.stringContaining("2 of 2 must, and 1 did") };
      await expect.poll(() => chosen.engine.failover(order)).toEqual(refused);
      await expect(chosen.engine.promote(2, [primary.host, other.host])).rejects.toThrow("2 of 2 must, and 1 did");
      await other.crash();
      await other.engine.assign({ role: "replica", primaryHost: primary.host, epoch: 1 });
      const complete = { ...order, others: [other.host] };
      await expect.poll(() => chosen.engine.failover(complete), { timeout: 60_000 }).toEqual({ ok: true });
      expect(await chosen.has("acknowledged")).toBe(true);
      await other.engine.assign({ role: "replica", primaryHost: chosen.host, epoch: 2 });
      expect(await chosen.write("after")).toBe(true);
    } finally {
      await servers.stop(pods);
    }
  });

  it.each(["main process", "checkpointer"])("can follow the end of a server whose %s is stopped", async (name) => {
    const pods = await servers.start(1);
    const [primary] = pods;
    if (primary === undefined) throw new Error("start: returned no Pod");
    try {
      await primary.engine.assign({ role: "primary", primaryHost: primary.host, epoch: 1 });
      const ofChild = [["SELECT pid FROM pg_stat_activity WHERE backend_type = $1", name]] as const;
      const [child] = ((await primary.run(ofChild)) ?? []) as readonly { readonly pid: string }[];
      process.kill(Number(child?.pid ?? (await primary.engine.role()).info["pid"]), "SIGSTOP");
      let end: string | undefined;
      void primary.engine.ended.then((message) => (end = message));
      // The agent asks for the role every half second.
      const ended = () =>
        primary.engine.role().then(
          () => end,
          () => end,
        );
      await expect.poll(ended, { interval: 500 }).toBeDefined();
    } finally {
      await servers.stop(pods);
    }
  });

  it("does not wait for a replica that does not respond", async () => {
    const pods = await startGroup();
    const [primary, chosen, other] = pods;
    try {
      expect(await primary.write("kept")).toBe(true);
      await expect.poll(() => chosen.has("kept")).toBe(true);
      await other.kill();
      await primary.kill();
      const order = { target: chosen.host, others: [other.host], epoch: 2, timeoutMs: 20_000 };
      await expect.poll(() => chosen.engine.failover(order)).toEqual({ ok: true });
      expect(await chosen.has("kept")).toBe(true);
      expect(await chosen.write("after")).toBe(true);
    } finally {
      await servers.stop(pods);
    }
  });
});
