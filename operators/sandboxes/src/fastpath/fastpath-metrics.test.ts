import { expect, it } from "vitest";
import { createFastPathMetrics } from "./fastpath-metrics.ts";

it("shows the warm slots of each pool, and how many sandboxes started in one", async () => {
  const warm = {
    shells: { desired: 4, ready: 3 },
    images: { desired: 2, ready: 2 },
    starts: { cold: 1, shell: 2, image: 1 },
    refills: { count: 8, totalMs: 500 },
  };
  const { text } = await createFastPathMetrics(() => [{ namespace: "default", pool: "a", warm }]).scrape();
  const values = text.split("\n").filter((line) => line.startsWith("sandbox_warm_"));
  expect(values.map((line) => line.replace('namespace="default",pool="a"', ""))).toEqual([
    'sandbox_warm_slots{,kind="shell",state="desired"} 4',
    'sandbox_warm_slots{,kind="shell",state="ready"} 3',
    'sandbox_warm_slots{,kind="image",state="desired"} 2',
    'sandbox_warm_slots{,kind="image",state="ready"} 2',
    'sandbox_warm_starts{,start="cold"} 1',
    'sandbox_warm_starts{,start="shell"} 2',
    'sandbox_warm_starts{,start="image"} 1',
    "sandbox_warm_hit_ratio{} 0.75",
    "sandbox_warm_refills{} 8",
    "sandbox_warm_refill_seconds{} 0.5",
  ]);
  expect((await createFastPathMetrics().scrape()).text).not.toContain("sandbox_warm_");
});

it("counts creates in cumulative buckets, a bound being part of its bucket, by mode and success", async () => {
  const metrics = createFastPathMetrics();
  for (const seconds of [0.05, 0.051, 7]) metrics.created("fast", true, seconds);
  metrics.created("strong", false, 0.2);
  const { text } = await metrics.scrape();
  const fast = 'fastpath_create_sandbox_duration_seconds_bucket{mode="fast",success="true",le=';
  expect(text.split("\n").filter((line) => line.startsWith(fast))).toEqual([
    ...["0.001", "0.005", "0.01", "0.025"].map((bound) => `${fast}"${bound}"} 0`),
    `${fast}"0.05"} 1`,
    ...["0.1", "0.25", "0.5", "1"].map((bound) => `${fast}"${bound}"} 2`),
    `${fast}"+Inf"} 3`,
  ]);
  expect(text).toContain('duration_seconds_sum{mode="fast",success="true"} 7.101\n');
  expect(text).toContain('duration_seconds_count{mode="strong",success="false"} 1\n');
});
