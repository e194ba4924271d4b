import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { PodObject } from "@keelson/api-machinery/kinds";
import { silentLogger } from "@keelson/controller";
import { expect, onTestFinished, test } from "vitest";
import { PodRecords } from "../pod/pod-records.ts";
import { PodResizes } from "./pod-resizes.ts";
import { resourcesOf } from "./pod-resources.ts";
import { main, podOf } from "../pod/testing/simulated-pod.ts";

const pod = (cpu: string, generation = 1): PodObject =>
  podOf({ containers: [{ ...main, resources: { requests: { cpu } } }] }, { generation });

test("admits a deferred resize once other Pods have freed the resources, and stores the allocation", async () => {
  const dir = await mkdtemp(join(tmpdir(), "keelson-resizes-"));
  onTestFinished(() => rm(dir, { recursive: true, force: true }));
  const records = new PodRecords(dir);
  records.set("u", { namespace: "default", name: "p", podIP: "127.64.0.2", allocated: resourcesOf(pod("100m")) });
  let others = [pod("700m")];
  const reasons: (string | undefined)[] = [];
  const events = { event: (_: unknown, { reason }: { readonly reason?: string }) => void reasons.push(reason) };
  const node = { capacity: { cpu: "1", memory: "1Gi" }, log: silentLogger, events };
  const resizes = new PodResizes(node, records, () => others);

  expect(resizes.admit("u", pod("100m")).resize).toEqual({ kind: "none" });
  const desired = pod("500m", 2);
  for (let turn = 0; turn < 2; turn++) {
    const { pod: running, resize } = resizes.admit("u", desired);
    expect(running.spec.containers[0]?.resources?.requests).toEqual({ cpu: "100m" });
    expect(resize).toMatchObject({ kind: "pending", reason: "Deferred", generation: 2 });
  }
  expect(reasons).toEqual(["ResizeDeferred"]);
  expect(resizes.waiting()).toEqual([{ uid: "u", desired }]);

  others = [];
  expect(resizes.admit("u", desired)).toEqual({ pod: desired, resize: { kind: "allocated", generation: 2 } });
  expect([reasons, resizes.waiting()]).toEqual([["ResizeDeferred", "ResizeStarted"], []]);
  await records.settled("u");
  const later = new PodRecords(dir);
  await later.load(() => true);
  expect(later.get("u")?.allocated).toEqual({ main: { requests: { cpu: "500m" } } });

  expect(resizes.admit("u", pod("2", 3)).resize).toMatchObject({ kind: "pending", reason: "Infeasible" });
  expect(resizes.waiting()).toEqual([]);
});
