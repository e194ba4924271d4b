import { systemClock } from "@keelson/api-machinery/time";
import { createPrometheusMetrics } from "@keelson/controller/metrics";
import { WorkQueue } from "@keelson/controller/queue";
import { type Benchmark, percentile } from "../../figure.ts";
import { measurePeer } from "../../missing-peer.ts";
import { buildClientGoQueue, clientGo } from "../../runtime/client-go-queue.ts";

const items = 200_000;
const backlogs = [0, 100_000, 300_000];
const rounds = 3;

/** The work queue with metrics: add, get and done of one item, without and with a long backlog, alternating with client-go's. */
export const runtimeQueue: Benchmark = {
  name: "runtime-queue",
  async run() {
    const metrics = await createPrometheusMetrics();
    using clientGoQueue = await measurePeer(buildClientGoQueue);
    const figures = [];
    for (const backlog of backlogs) {
      const ours: number[] = [];
      const peers: number[] = [];
      for (let round = 0; round < rounds; round++) {
        ours.push(perItemUs(metrics, `bench-${backlog}-${round}`, backlog));
        if (clientGoQueue !== undefined) peers.push(await clientGoQueue.perItemUs(items, backlog));
      }
      figures.push({
        name: `work queue: add, get, done with ${backlog} items waiting`,
        unit: "us" as const,
        ours: percentile(ours, 0.5),
        ...(peers.length === 0 ? {} : { peer: { name: clientGo, value: percentile(peers, 0.5) } }),
        note: `ours with metrics and priorities; best of 5, median of ${rounds} alternating runs`,
      });
    }
    return figures;
  },
};

function perItemUs(metrics: Awaited<ReturnType<typeof createPrometheusMetrics>>, name: string, backlog: number): number {
  const queue = new WorkQueue<string>({ clock: systemClock, idOf: (value) => value, metrics: metrics.controller(name, 1) });
  for (let index = 0; index < backlog; index++) queue.add(`backlog-${index}`);
  let best = Number.POSITIVE_INFINITY;
  for (let round = 0; round < 5; round++) {
    // As in the peer's program, whose queue still contains items of the previous round.
    const names = Array.from({ length: items }, (_, index) => `item-${round}-${index}`);
    const startedAt = performance.now();
    for (const item of names) {
      queue.add(item, { priority: 1 });
      const next = queue.take();
      if (next !== undefined) queue.done(next.value);
    }
    best = Math.min(best, ((performance.now() - startedAt) / items) * 1000);
  }
  queue.shutDown();
  return best;
}
