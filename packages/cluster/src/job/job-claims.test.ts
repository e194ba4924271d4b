import { Job, Pod } from "@keelson/api-machinery/kinds";
import { beforeEach, expect, test } from "vitest";
import { World } from "../workload/testing/world.ts";
import { claimPods } from "./job-claims.ts";
import { decideJob } from "./job-decision.ts";

const trackingFinalizer = "batch.kubernetes.io/job-tracking";

let world: World;
beforeEach(() => {
  world = new World();
  const template = { spec: { restartPolicy: "Never", containers: [{ name: "main" }] } };
  const { metadata } = world.create(Job, { metadata: { name: "j" }, spec: { template, parallelism: 1, completions: 1 } });
  world.change(Job, "j", { spec: { selector: { matchLabels: { "controller-uid": metadata.uid } } } });
  world.settle(() => decideJob({ job: job(), pods: world.list(Pod) }, world.now), true);
});

const job = () => world.get(Job, "j");
const onlyPod = () => {
  const [pod] = world.list(Pod);
  if (pod === undefined) throw new Error("no Pod");
  return pod;
};
const change = (metadata: object) => world.change(Pod, onlyPod().metadata.name ?? "", { metadata });

test("a Pod that matches the selector and has no controller is adopted and tracked", () => {
  change({ ownerReferences: [], finalizers: [] });
  const { owned, writes } = claimPods(job(), world.list(Pod));
  expect(owned).toEqual([]);
  world.perform(writes);
  expect(onlyPod().metadata).toMatchObject({
    ownerReferences: [{ kind: "Job", name: "j", controller: true }],
    finalizers: [trackingFinalizer],
  });
  expect(claimPods(job(), world.list(Pod))).toMatchObject({ owned: [{}], writes: [] });
});

test("a Pod that does not match any more is released and not tracked", () => {
  change({ labels: null });
  world.perform(claimPods(job(), world.list(Pod)).writes);
  expect(onlyPod().metadata).toMatchObject({ ownerReferences: [], finalizers: [] });
  expect(claimPods(job(), world.list(Pod))).toEqual({ owned: [], writes: [] });
});

test("a Pod of another controller is left alone", () => {
  change({ ownerReferences: [{ apiVersion: "apps/v1", kind: "ReplicaSet", name: "r", uid: "other", controller: true }] });
  expect(claimPods(job(), world.list(Pod))).toEqual({ owned: [], writes: [] });
});

const ends = [
  ["being deleted", { metadata: { deletionTimestamp: "2026-01-01T00:00:00Z" } }],
  ["complete", { status: { conditions: [{ type: "Complete", status: "True" }] } }],
  ["failed", { status: { conditions: [{ type: "Failed", status: "True" }] } }],
] as const;

test.each(ends)("a Job that is %s removes its finalizer also from Pods whose labels changed", (_, end) => {
  change({ labels: null });
  const ended = { ...job(), ...end, metadata: { ...job().metadata, ...("metadata" in end && end.metadata) } };
  const { owned, writes } = claimPods(ended, world.list(Pod));
  expect(owned).toHaveLength(1);
  expect(writes).toEqual([]);
  world.perform(decideJob({ job: ended, pods: owned }, world.now).writes);
  expect(onlyPod().metadata.finalizers ?? []).toEqual([]);
});

test.each(ends)("a Job that is %s adopts no Pods", (_, end) => {
  change({ ownerReferences: [], finalizers: [] });
  const ended = { ...job(), ...end, metadata: { ...job().metadata, ...("metadata" in end && end.metadata) } };
  expect(claimPods(ended, world.list(Pod))).toEqual({ owned: [], writes: [] });
});
