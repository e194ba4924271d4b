import type { PodSpec } from "@keelson/api-machinery/kinds";
import { expect, test } from "vitest";
import { podOf } from "../pod/testing/simulated-pod.ts";
import { isLocalVolume, storageExcess, storageLimits } from "./storage-decision.ts";

const mi = 1024 * 1024;
const limited = (name: string, limit: string) => ({
  ...{ name, image: "x" },
  resources: { limits: { "ephemeral-storage": limit } },
});

function excess(
  spec: Partial<PodSpec>,
  usage: { readonly volumes?: Record<string, number>; readonly containers?: Record<string, number> },
): string | undefined {
  const limits = storageLimits(podOf(spec));
  if (limits === undefined) throw new Error("the Pod has no limits");
  const { volumes = {}, containers = {} } = usage;
  return storageExcess(limits, { volumes: new Map(Object.entries(volumes)), containers: new Map(Object.entries(containers)) });
}

test("a Pod without limits on the disk is not measured", () => {
  const volumes: PodSpec["volumes"] = [
    { name: "a", emptyDir: {} },
    { name: "b", emptyDir: { sizeLimit: "0" } },
    { name: "c", emptyDir: { medium: "Memory", sizeLimit: "1Mi" } },
  ];
  expect(storageLimits(podOf({ volumes, containers: [{ name: "c", image: "x", resources: { limits: { cpu: "1" } } }] }))).toBe(
    undefined,
  );
});

test("a Pod is evicted above the sizeLimit of a volume, not at it", () => {
  const spec = { volumes: [{ name: "cache", emptyDir: { sizeLimit: "1024Ki" } }] };
  expect(excess(spec, { volumes: { cache: mi } })).toBeUndefined();
  expect(excess(spec, { volumes: { cache: mi + 1 } })).toBe('Usage of EmptyDir volume "cache" exceeds the limit "1Mi". ');
});

test("a Pod is evicted above the sum of its containers' limits, which its volumes count against", () => {
  const containers = [limited("a", "512Mi"), limited("b", "512Mi"), { name: "c", image: "x" }];
  const usage = { volumes: { data: 600 * mi }, containers: { a: 300 * mi, c: 124 * mi } };
  expect(excess({ containers }, usage)).toBeUndefined();
  expect(excess({ containers }, { ...usage, containers: { a: 300 * mi, c: 125 * mi } })).toBe(
    "Pod ephemeral local storage usage exceeds the total limit of containers 1Gi. ",
  );
});

test("init containers count with the sidecars before them, if that is more", () => {
  const initContainers = [
    { ...limited("side", "1Mi"), restartPolicy: "Always" as const },
    limited("first", "5Mi"),
    limited("second", "2Mi"),
  ];
  const containers = [limited("main", "1Mi")];
  expect(storageLimits(podOf({ initContainers, containers }))?.pod).toEqual({ bytes: 6 * mi, text: "6Mi" });
});

test("a container is evicted above its own limit", () => {
  const containers = [limited("a", "10M"), limited("b", "1Gi")];
  expect(excess({ containers }, { containers: { a: 10_000_001 } })).toBe(
    'Container a exceeded its local ephemeral storage limit "10M". ',
  );
});

test("only volumes with files on the disk of the node count", () => {
  const pod = podOf({
    volumes: [
      { name: "disk", emptyDir: {} },
      { name: "memory", emptyDir: { medium: "Memory" } },
      { name: "host", hostPath: { path: "/" } },
      { name: "config", configMap: { name: "c" } },
    ],
  });
  expect(["disk", "memory", "host", "config", "none"].filter((name) => isLocalVolume(pod, name))).toEqual(["disk", "config"]);
});
