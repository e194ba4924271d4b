import type { Container, PodSpec } from "@keelson/api-machinery/kinds";
import { expect, test } from "vitest";
import { podOf } from "../pod/testing/simulated-pod.ts";
import { type Candidate, evictionMessage, rankForEviction } from "./eviction-ranking.ts";
import type { MetThreshold } from "./thresholds.ts";

const mebibyte = 2 ** 20;
const space: MetThreshold = { signal: "nodefs.available", threshold: 1024 * mebibyte, free: 500 * mebibyte };
const files: MetThreshold = { signal: "nodefs.inodesFree", threshold: 50_000, free: 10 };

function candidate(
  name: string,
  used: number | undefined,
  { request, ...spec }: Partial<PodSpec> & { readonly request?: string } = {},
): Candidate {
  const resources: Container["resources"] = request === undefined ? {} : { requests: { "ephemeral-storage": request } };
  const containers = [{ name: "main", image: "x", resources }];
  return {
    pod: podOf({ containers, ...spec }, { name, uid: name }),
    usage: { total: used, containers: new Map(used === undefined ? [] : [["main", used]]) },
  };
}

const order = (met: MetThreshold, ...candidates: readonly Candidate[]): unknown =>
  rankForEviction(candidates, met).map(({ pod }) => pod.metadata.name);

test("Pods above their request are evicted first, then those of low priority, then those with most above it", () => {
  const within = candidate("within", 900 * mebibyte, { request: "1Gi", priority: -10 });
  const important = candidate("important", 800 * mebibyte, { priority: 100 });
  const small = candidate("small", 10 * mebibyte);
  const large = candidate("large", 20 * mebibyte);
  const requested = candidate("requested", 25 * mebibyte, { request: "20Mi" });
  expect(order(space, within, important, small, requested, large)).toEqual([
    "large",
    "small",
    "requested",
    "important",
    "within",
  ]);
});

test("a Pod whose files cannot be counted in time uses the most", () => {
  const uncountable = candidate("uncountable", undefined, { request: "1Gi" });
  expect(order(space, candidate("large", 10_000 * mebibyte), uncountable)).toEqual(["uncountable", "large"]);
});

test("requests for space do not count for files", () => {
  expect(order(files, candidate("few", 10), candidate("many", 1000, { request: "1Gi" }))).toEqual(["many", "few"]);
});

test("the messages are the kubelet's", () => {
  const low = "The node was low on resource: ephemeral-storage. Threshold quantity: 1Gi, available: 512000Ki. ";
  expect(evictionMessage(candidate("a", 30 * mebibyte), space)).toBe(
    `${low}Container main was using 30720Ki, request is 0, has larger consumption of ephemeral-storage. `,
  );
  expect(evictionMessage(candidate("a", 30 * mebibyte, { request: "20Mi" }), space)).toBe(
    `${low}Container main was using 30720Ki, request is 20Mi, has larger consumption of ephemeral-storage. `,
  );
  expect(evictionMessage(candidate("a", 30 * mebibyte, { request: "40Mi" }), space)).toBe(low);
  expect(evictionMessage(candidate("a", 30), files)).toBe(
    "The node was low on resource: inodes. Threshold quantity: 50000, available: 10. Container main was using 30, request is 0, has larger consumption of inodes. ",
  );
});
