import { strict as assert } from "node:assert";
import type { ContractCase, EngineContractOptions } from "./contract.ts";
import { credentialCases } from "./credential-cases.ts";
import { failoverCases } from "./failover-cases.ts";
import { assignPrimary, assignReplica, hasRole, parametersOf, type PodCase, Pods } from "./contract-steps.ts";
import { logCases } from "./log-cases.ts";
import { metricCases } from "./metric-cases.ts";
import { snapshotCases } from "./snapshot-cases.ts";

/**
 * The contract of an engine as cases for any test framework. They reject with an `AssertionError`.
 *
 * ```ts
 * it.each(engineContract(options))("$title", ({ run }) => run());
 * ```
 */
export function engineContract(options: EngineContractOptions): readonly ContractCase[] {
  return [
    ...roleCases,
    ...parameterCases,
    ...failoverCases,
    ...snapshotCases,
    ...logCases,
    ...metricCases,
    ...credentialCases,
  ].map(({ title, pods: count, run }) => ({
    title,
    async run() {
      const pods = await options.startPods(count);
      try {
        await run(new Pods(pods, options.clock), options);
      } finally {
        await options.stopPods(pods);
      }
    },
  }));
}

const roleCases: readonly PodCase[] = [
  {
    title: "serves no clients until it has a role",
    pods: 1,
    async run(pods) {
      assert.equal((await pods.at(0).engine.role()).role, "unassigned");
      assert.equal(await pods.at(0).write("early"), false);
    },
  },
  {
    title: "becomes the primary, repeats that without effect, and refuses an older epoch",
    pods: 1,
    async run(pods) {
      const { engine, host } = pods.at(0);
      await assignPrimary(pods, 0, 3);
      const { role, info } = await engine.role();
      assert.deepEqual([role, info["isInSync"], info["primaryHost"], info["epoch"]], ["primary", "true", host, "3"]);
      assert.equal(await pods.at(0).write("a"), true);
      await assignPrimary(pods, 0, 3);
      assert.equal(await pods.at(0).has("a"), true);
      const refused = await engine.assign({ role: "primary", primaryHost: host, epoch: 2 });
      assert.equal(refused.ok, false);
      assert.equal(await engine.isFenced(), false);
    },
  },
  {
    title: "copies the data of its primary as a replica, follows it, and rejects writes",
    pods: 2,
    async run(pods) {
      await assignPrimary(pods, 0, 1);
      assert.equal(await pods.at(0).write("before"), true);
      await assignReplica(pods, 1, 0, 1);
      assert.equal(await pods.at(0).write("after"), true);
      await pods.until("the replica has both keys", async () => (await pods.at(1).has("before")) && pods.at(1).has("after"));
      assert.equal(await pods.at(1).write("on the replica"), false);
      const [primary, replica] = [await pods.at(0).engine.role(), await pods.at(1).engine.role()];
      assert.equal(replica.info["primaryHost"], pods.at(0).host);
      assert.ok(Number(replica.info["offset"]) > 1, "a replica with data reports an offset greater than 1");
      assert.ok(Number(primary.info["offset"]) >= Number(replica.info["offset"]), "no replica is ahead of its primary");
    },
  },
  {
    title: "keeps its data when it is restarted, and serves no clients until its role is assigned again",
    pods: 1,
    async run(pods) {
      await assignPrimary(pods, 0, 1);
      assert.equal(await pods.at(0).write("kept"), true);
      await pods.at(0).crash();
      const { role } = await pods.at(0).engine.role();
      assert.equal(role, "recovering");
      assert.equal(await pods.at(0).write("early"), false);
      await assignPrimary(pods, 0, 1);
      assert.equal(await pods.at(0).has("kept"), true);
      assert.equal(await pods.at(0).write("late"), true);
    },
  },
  {
    title: "reports that it has stopped, and that nothing listens at its address",
    pods: 2,
    async run(pods) {
      await assignPrimary(pods, 0, 1);
      assert.equal(await pods.at(1).engine.isDown(pods.at(0).host), false);
      assert.deepEqual(await pods.at(0).engine.stop({ timeoutMs: 20_000, force: true }), { ok: true });
      assert.equal((await pods.at(0).engine.role()).role, "stopped");
      assert.equal(await pods.at(1).engine.isDown(pods.at(0).host), true);
      assert.deepEqual(await pods.at(0).engine.stop({ timeoutMs: 20_000, force: true }), { ok: true });
    },
  },
];

const parameterCases: readonly PodCase[] = [
  {
    title: "sets a hot parameter without a restart, and reports the hash of the parameters in force",
    pods: 1,
    async run(pods, { parameters, hot }) {
      await assignPrimary(pods, 0, 1);
      const { engine } = pods.at(0);
      const { pid } = (await engine.role()).info;
      assert.deepEqual(await engine.reload({ ...parameters, ...parametersOf(hot) }, "hash-2"), { ok: true });
      const { info } = await engine.role();
      assert.deepEqual([info["configHash"], info["pid"]], ["hash-2", pid]);
      assert.deepEqual(await engine.reload({ ...parameters, ...parametersOf(hot) }, "hash-2"), { ok: true });
    },
  },
  {
    title: "names the parameters that need a restart, and sets none",
    pods: 1,
    async run(pods, { parameters, hot, cold }) {
      await assignPrimary(pods, 0, 1);
      const { engine } = pods.at(0);
      const { configHash } = (await engine.role()).info;
      const outcome = await engine.reload({ ...parameters, ...parametersOf(hot, cold) }, "hash-3");
      assert.deepEqual(outcome, { ok: "restart", parameters: [cold.name] });
      assert.equal((await engine.role()).info["configHash"], configHash);
    },
  },
  {
    title: "rejects an invalid parameter with the program's message, and sets none",
    pods: 1,
    async run(pods, { parameters, hot, invalid }) {
      await assignPrimary(pods, 0, 1);
      const { engine } = pods.at(0);
      const { configHash } = (await engine.role()).info;
      const outcome = await engine.reload({ ...parameters, ...parametersOf(hot, invalid) }, "hash-4");
      assert.equal(outcome.ok, false);
      assert.ok(outcome.ok === false && outcome.error.includes(invalid.name), "the message names the parameter");
      await hasRole(pods, 0, "primary");
      assert.equal((await engine.role()).info["configHash"], configHash);
      assert.equal(await pods.at(0).write("after"), true);
    },
  },
];
