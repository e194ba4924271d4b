import { strict as assert } from "node:assert";
import { setImmediate } from "node:timers/promises";
import type { SnapshotEngine, SnapshotSummary } from "../snapshot/snapshot-engine.ts";
import { assignPrimary, assignReplica, hasRole, type PodCase, type Pods } from "./contract-steps.ts";

/** Reads a whole snapshot, which is small here. */
export async function readSnapshot(
  snapshots: SnapshotEngine,
): Promise<{ readonly data: Buffer; readonly summary: SnapshotSummary }> {
  const chunks: Uint8Array[] = [];
  let summary: SnapshotSummary | undefined;
  for await (const part of snapshots.snapshot()) {
    assert.equal(summary, undefined, "the summary is the last part");
    if (part instanceof Uint8Array) chunks.push(part);
    else summary = part;
  }
  assert.ok(summary, "a snapshot ends with a summary");
  return { data: Buffer.concat(chunks), summary };
}

/** A snapshot as a stream. */
export async function* inChunks(data: Buffer): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < data.length; at += 65_536) yield data.subarray(at, at + 65_536);
}

/** The first half of a snapshot whose sender has died. */
async function* interrupted(data: Buffer): AsyncGenerator<Uint8Array> {
  yield* inChunks(data.subarray(0, data.length >> 1));
  throw new Error("the sender has died");
}

/** The snapshots of a Pod, unless its engine has none. */
export function snapshotsOf(pods: Pods, index: number): SnapshotEngine | undefined {
  return pods.at(index).engine.snapshots;
}

/** Awaits an action, and returns the different roles that a Pod reports in the meantime: the message of its error if it does not respond. */
async function withRoles<T>(
  pods: Pods,
  index: number,
  action: Promise<T>,
): Promise<{ readonly result: T; readonly roles: readonly string[] }> {
  const roles = new Set<string>();
  let hasEnded = false;
  const ended = action.finally(() => void (hasEnded = true));
  const observed = (async () => {
    while (!hasEnded) {
      roles.add(
        await pods
          .at(index)
          .engine.role()
          .then(({ role }) => role, String),
      );
      await setImmediate();
    }
  })();
  const [result] = await Promise.all([ended, observed]);
  return { result, roles: [...roles] };
}

/** Cases of engines with snapshots. Others pass them. */
export const snapshotCases: readonly PodCase[] = [
  {
    title: "streams a snapshot that it accepts, and rejects one that is damaged",
    pods: 1,
    async run(pods) {
      const snapshots = snapshotsOf(pods, 0);
      if (snapshots === undefined) return;
      await assignPrimary(pods, 0, 1);
      assert.equal(await pods.at(0).write("kept"), true);
      const { data, summary } = await readSnapshot(snapshots);
      assert.equal(summary.sizeBytes, data.length);
      const checked = await snapshots.check(inChunks(data));
      assert.deepEqual(checked, { ok: true, keys: summary.keys, expiringKeys: summary.expiringKeys });
      assert.equal((await snapshots.check(inChunks(data.subarray(0, data.length >> 1)))).ok, false);
    },
  },
  {
    title: "keeps its data and its role if a snapshot does not arrive completely, even after a restart",
    pods: 1,
    async run(pods) {
      const snapshots = snapshotsOf(pods, 0);
      if (snapshots === undefined) return;
      await assignPrimary(pods, 0, 1);
      assert.equal(await pods.at(0).write("kept"), true);
      const { data } = await readSnapshot(snapshots);
      assert.equal(await pods.at(0).write("later"), true);
      const ended = await snapshots.load(data.length, interrupted(data)).catch((error: unknown) => error);
      assert.ok(ended instanceof Error || (ended as { readonly ok: boolean }).ok === false, "the load fails");
      await hasRole(pods, 0, "primary");
      assert.deepEqual([await pods.at(0).has("later"), await pods.at(0).write("after")], [true, true]);
      await pods.at(0).crash();
      await assignPrimary(pods, 0, 1);
      assert.deepEqual([await pods.at(0).has("later"), await pods.at(0).has("after")], [true, true]);
    },
  },
  {
    title: "replaces the data of the primary and of its replicas by a snapshot",
    pods: 2,
    async run(pods) {
      const snapshots = snapshotsOf(pods, 0);
      if (snapshots === undefined) return;
      await assignPrimary(pods, 0, 1);
      assert.equal(await pods.at(0).write("kept"), true);
      const { data, summary } = await readSnapshot(snapshots);
      await assignReplica(pods, 1, 0, 1);
      assert.equal(await pods.at(0).write("later"), true);
      const { result: loaded, roles } = await withRoles(pods, 0, snapshots.load(data.length, inChunks(data)));
      assert.deepEqual(loaded, { ok: true, keys: summary.keys, expiringKeys: summary.expiringKeys });
      assert.deepEqual(roles, ["primary"], "another role, or none, starts a failover");
      await hasRole(pods, 0, "primary");
      assert.deepEqual([await pods.at(0).has("kept"), await pods.at(0).has("later")], [true, false]);
      assert.equal(await pods.at(0).write("after"), true);
      await pods.until(
        "the replica has the loaded data",
        async () => (await pods.at(1).has("after")) && !(await pods.at(1).has("later")),
      );
      const refused = await pods.at(1).engine.snapshots?.load(data.length, inChunks(data));
      assert.equal(refused?.ok, false, "a replica loads nothing");
    },
  },
];
