import { systemClock } from "@keelson/api-machinery/time";
import { createPrometheusMetrics } from "@keelson/controller/metrics";
import { WorkQueue } from "@keelson/controller/queue";
import type { Benchmark } from "../figure.ts";

const items = 200_000;

/** The work queue with metrics: add, get and done of one item, without and with a long backlog. */
export const runtimeQueue: Benchmark = {
  name: "runtime-queue",
  async run() {
    const metrics = await createPrometheusMetrics();
    const perItem = (backlog: number): number => {
      const queue = new WorkQueue<string>({
        clock: systemClock,
        idOf: (value) => value,
        metrics: metrics.controller(`bench-${backlog}`, 1),
      });
      for (let index = 0; index < backlog; index++) queue.add(`backlog-${index}`);
      let best = Number.POSITIVE_INFINITY;
      for (let round = 0; round < 3; round++) {
        const startedAt = performance.now();
        for (let index = 0; index < items; index++) {
          queue.add(`item-${index}`, { priority: 1 });
          const item = queue.take();
          if (item !== undefined) queue.done(item.value);
        }
        best = Math.min(best, ((performance.now() - startedAt) / items) * 1000);
      }
      queue.shutDown();
      return best;
    };
    return [0, 100_000, 300_000].map((backlog) => ({
      name: `work queue: add, get, done with ${backlog} items waiting`,
      unit: "us" as const,
      ours: perItem(backlog),
      note: "metrics on, best of 3",
    }));
  },
};
