import { strict as assert } from "node:assert";
import { assignPrimary, assignReplica, hasRole, type PodCase, type Pods } from "./contract-steps.ts";

const timeoutMs = 20_000;
/** Keys that are written before a change of the primary. */
const keys = Array.from({ length: 20 }, (_, index) => `key-${index}`);

async function writeKeys(pods: Pods, index: number): Promise<void> {
  for (const key of keys) assert.equal(await pods.at(index).write(key), true);
}

async function hasKeys(pods: Pods, index: number): Promise<void> {
  for (const key of keys) assert.equal(await pods.at(index).has(key), true, `${key} is missing`);
}

async function startGroup(pods: Pods, count: number): Promise<void> {
  await assignPrimary(pods, 0, 1);
  for (let index = 1; index < count; index++) await assignReplica(pods, index, 0, 1);
}

/** Cases in which another Pod becomes the primary. */
export const failoverCases: readonly PodCase[] = [
  {
    title: "rejects all writes while it is fenced, and accepts them again when it is promoted",
    pods: 1,
    async run(pods) {
      await assignPrimary(pods, 0, 1);
      const { engine } = pods.at(0);
      await writeKeys(pods, 0);
      await engine.fenceWrites();
      assert.equal(await pods.at(0).write("fenced"), false);
      const { role } = await engine.role();
      assert.ok(role !== "primary" || (await engine.isFenced()), "a fenced program reports that it is fenced, or another role");
      await engine.promote(2);
      await hasRole(pods, 0, "primary");
      assert.equal((await engine.role()).info["epoch"], "2");
      await hasKeys(pods, 0);
      assert.equal(await pods.at(0).write("after"), true);
    },
  },
  {
    title: "hands its role over without losing an acknowledged write",
    pods: 3,
    async run(pods) {
      await startGroup(pods, 3);
      const written = new Set<string>();
      let isDone = false;
      const writer = (async () => {
        for (let index = 0; !isDone; index++) {
          if (await pods.at(0).write(`live-${index}`)) written.add(`live-${index}`);
          else await pods.pause();
        }
      })();
      await pods.until("some keys are written", () => Promise.resolve(written.size > 20));
      const [target, other] = [pods.at(1).host, pods.at(2).host];
      const outcome = await pods.at(0).engine.failover({ target, others: [other], epoch: 2, timeoutMs });
      isDone = true;
      await writer;
      assert.deepEqual(outcome, { ok: true });
      await hasRole(pods, 1, "primary");
      for (const key of written) assert.equal(await pods.at(1).has(key), true, `${key} is missing`);
      await hasRole(pods, 0, "replica");
      await assignReplica(pods, 2, 1, 2);
      assert.equal(await pods.at(1).write("after"), true);
      await pods.until("all replicas follow", async () => (await pods.at(0).has("after")) && pods.at(2).has("after"));
    },
  },
  {
    title: "rejects writes before it asks for permission, and is the primary again once that is assigned",
    pods: 2,
    async run(pods) {
      await startGroup(pods, 2);
      const target = pods.at(1).host;
      let wasWritable: boolean | undefined;
      const beforePromotion = async (): Promise<{ readonly ok: false; readonly error: string }> => {
        wasWritable = await pods.at(0).write("during");
        return { ok: false, error: "not permitted" };
      };
      const outcome = await pods.at(0).engine.failover({ target, others: [], epoch: 2, timeoutMs, beforePromotion });
      assert.deepEqual(outcome, { ok: false, error: "not permitted" });
      assert.equal(wasWritable, false);
      assert.equal((await pods.at(1).engine.role()).role, "replica");
      await assignPrimary(pods, 0, 2);
      assert.equal(await pods.at(0).write("after"), true);
    },
  },
  {
    title: "refuses a switchover to a server that does not follow it",
    pods: 2,
    async run(pods) {
      await assignPrimary(pods, 0, 1);
      const target = pods.at(1).host;
      assert.equal((await pods.at(0).engine.failover({ target, others: [], epoch: 2, timeoutMs })).ok, false);
      await hasRole(pods, 0, "primary");
      assert.equal(await pods.at(0).write("after"), true);
    },
  },
  {
    title: "is promoted after its primary has ended, which follows it when it returns",
    pods: 3,
    async run(pods) {
      await startGroup(pods, 3);
      await writeKeys(pods, 0);
      await pods.until("the replica has all keys", () => pods.at(1).has(keys.at(-1) ?? ""));
      await pods.at(0).kill();
      const { engine, host } = pods.at(1);
      const order = { target: host, others: [pods.at(2).host], epoch: 2, timeoutMs };
      await pods.until("the takeover succeeds", async () => (await engine.failover(order)).ok);
      await hasRole(pods, 1, "primary");
      await hasKeys(pods, 1);
      await assignReplica(pods, 2, 1, 2);
      assert.equal(await pods.at(1).write("after"), true);
      await pods.at(0).crash();
      assert.equal((await pods.at(0).engine.role()).role, "recovering");
      await assignReplica(pods, 0, 1, 2);
      await pods.until("the former primary follows", () => pods.at(0).has("after"));
      const refused = await pods.at(0).engine.assign({ role: "primary", primaryHost: pods.at(0).host, epoch: 1 });
      assert.equal(refused.ok, false);
    },
  },
  {
    title: "discards writes that only the former primary has",
    pods: 2,
    async run(pods) {
      await startGroup(pods, 2);
      await writeKeys(pods, 0);
      await pods.until("the replica has all keys", () => pods.at(1).has(keys.at(-1) ?? ""));
      await pods.at(1).kill();
      assert.equal(await pods.at(0).write("only here"), true);
      await pods.at(0).kill();
      await pods.at(1).crash();
      await assignPrimary(pods, 1, 2);
      assert.equal(await pods.at(1).write("after"), true);
      await pods.at(0).crash();
      await assignReplica(pods, 0, 1, 2);
      await pods.until("the former primary follows", () => pods.at(0).has("after"));
      assert.equal(await pods.at(0).has("only here"), false);
      for (const key of keys) assert.equal(await pods.at(0).has(key), await pods.at(1).has(key), `${key} differs`);
    },
  },
];
