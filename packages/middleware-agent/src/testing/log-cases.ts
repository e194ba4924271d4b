import { strict as assert } from "node:assert";
import type { LogEngine, LogSource } from "../log/log-engine.ts";
import type { LoadOptions } from "../snapshot/snapshot-engine.ts";
import { assignPrimary, assignReplica, hasRole, type PodCase, type Pods } from "./contract-steps.ts";
import { inChunks, readSnapshot, snapshotsOf } from "./snapshot-cases.ts";

/** A log archive in memory. */
class MemoryArchive implements LogSource {
  readonly files = new Map<string, Buffer>();
  cursor = "";

  get names(): ReadonlySet<string> {
    return new Set(this.files.keys());
  }

  async *read(name: string): AsyncGenerator<Uint8Array> {
    yield this.files.get(name) ?? assert.fail(`${name} is not archived`);
  }

  /** Stores and confirms the next file. Returns its name. */
  async store(log: LogEngine): Promise<string> {
    const { name, data, cursor } = await log.next();
    this.files.set(name, await bytesOf(data));
    this.cursor = cursor;
    assert.deepEqual(await log.confirm(cursor), { ok: true });
    return name;
  }
}

async function bytesOf(data: AsyncIterable<Uint8Array>): Promise<Buffer> {
  const chunks: Uint8Array[] = [];
  for await (const chunk of data) chunks.push(chunk);
  return Buffer.concat(chunks);
}

/** The log of a Pod, unless its engine has none or the suite cannot complete its files. */
function logOf(pods: Pods, index: number): { readonly log: LogEngine; readonly complete: () => Promise<void> } | undefined {
  const pod = pods.at(index);
  const { log } = pod.engine;
  if (log === undefined || pod.completeLog === undefined) return undefined;
  return { log, complete: () => pod.completeLog?.() ?? Promise.resolve() };
}

/** Cases of engines with a log. Others pass them. */
export const logCases: readonly PodCase[] = [
  {
    title: "hands out its log in order, a file again until it was confirmed, and what follows also after a restart",
    pods: 1,
    async run(pods) {
      if (logOf(pods, 0) === undefined) return;
      await assignPrimary(pods, 0, 1);
      const archive = new MemoryArchive();
      const { log, complete } = logOf(pods, 0) ?? assert.fail();
      assert.deepEqual(await log.setArchive(true), { ok: true });
      assert.equal(await pods.at(0).write("a"), true);
      await complete();
      const first = await log.next();
      const again = await log.next();
      assert.deepEqual([again.name, await bytesOf(again.data)], [first.name, await bytesOf(first.data)]);
      assert.equal(await archive.store(log), first.name);
      assert.equal(await pods.at(0).write("b"), true);
      await complete();
      await pods.at(0).crash();
      await assignPrimary(pods, 0, 1);
      const restarted = pods.at(0).engine.log ?? assert.fail();
      assert.notEqual(await archive.store(restarted), first.name);
      assert.equal((await pods.at(0).engine.role()).info["logArchive"], "true");
      assert.deepEqual(await restarted.setArchive(false), { ok: true });
      assert.equal((await restarted.confirm(archive.cursor)).ok, false);
    },
  },
  {
    title: "hands out the log that a former primary has not archived, after its replica was promoted",
    pods: 2,
    async run(pods) {
      if (logOf(pods, 0) === undefined) return;
      await assignPrimary(pods, 0, 1);
      await assignReplica(pods, 1, 0, 1);
      const { log, complete } = logOf(pods, 0) ?? assert.fail();
      await log.setArchive(true);
      const replica = pods.at(1).engine;
      await pods.until("the replica keeps its log", async () => (await replica.role()).info["logArchive"] === "true");
      await assert.rejects(replica.log?.next() ?? Promise.resolve(), "only a primary hands out log");
      const archive = new MemoryArchive();
      await complete();
      await archive.store(log);
      assert.equal(await pods.at(0).write("not archived"), true);
      await complete();
      await pods.until("the replica has all data", () => pods.at(1).has("not archived"));
      const { name } = await log.next();
      await pods.at(0).kill();
      const order = { target: pods.at(1).host, others: [], epoch: 2, timeoutMs: 20_000, isPrimaryDown: true };
      assert.deepEqual(await replica.failover(order), { ok: true });
      await hasRole(pods, 1, "primary");
      const promoted = logOf(pods, 1) ?? assert.fail();
      await promoted.complete();
      await pods.until("its log is archived", async () => (await archive.store(promoted.log)) === name);
    },
  },
  {
    title: "recovers a snapshot with archived log to a time, and to the end of the log",
    pods: 1,
    async run(pods, { clock }) {
      const snapshots = snapshotsOf(pods, 0);
      if (snapshots === undefined || logOf(pods, 0) === undefined) return;
      await assignPrimary(pods, 0, 1);
      const { log, complete } = logOf(pods, 0) ?? assert.fail();
      await log.setArchive(true);
      const { data, summary } = await readSnapshot(snapshots);
      assert.ok(summary.logStart, "a snapshot names the log that it needs");
      assert.equal(await pods.at(0).write("before"), true);
      const time = new Date(clock.now() + 1).toISOString();
      await pods.until("the time has passed", () => Promise.resolve(clock.now() > Date.parse(time) + 1));
      assert.equal(await pods.at(0).write("after"), true);
      await complete();
      const archive = new MemoryArchive();
      // Files of earlier log may come first.
      while (!archive.names.has(summary.logStart)) await archive.store(log);
      await pods.until("all log is archived", async () => {
        const { info } = await pods.at(0).engine.role();
        const isAhead = info["logBacklog"] === "0";
        if (!isAhead) await archive.store(log);
        return isAhead;
      });
      const loaded = (options: LoadOptions) => snapshots.load(data.length, inChunks(data), options);
      const future = { kind: "time", time: "2100-01-01T00:00:00Z" } as const;
      const refused = await loaded({ recovery: { target: future, log: archive } });
      assert.equal(refused.ok, false, "log that does not reach the target is refused");
      assert.equal(await pods.at(0).has("after"), true, "the data is kept");
      assert.equal((await loaded({ recovery: { target: { kind: "time", time }, log: archive } })).ok, true);
      await hasRole(pods, 0, "primary");
      assert.deepEqual([await pods.at(0).has("before"), await pods.at(0).has("after")], [true, false]);
      assert.equal((await loaded({ recovery: { target: { kind: "latest" }, log: archive } })).ok, true);
      assert.deepEqual([await pods.at(0).has("before"), await pods.at(0).has("after")], [true, true]);
      assert.equal(await pods.at(0).write("later"), true);
    },
  },
];
