import { expect, it } from "vitest";
import { createFastPathMetrics } from "./fastpath-metrics.ts";

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
