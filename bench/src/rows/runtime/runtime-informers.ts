import { type Benchmark, type Figure, percentile } from "../../figure.ts";
import { measurePeer } from "../../missing-peer.ts";
import { runNodeProgram } from "../../node-program.ts";
import type { InformerRun } from "../../runtime/informer-program.ts";
import { startPodServer } from "../../runtime/pod-server.ts";

const pods = 5_000;
/** Events before the measurement, so that the code is compiled: an informer runs for days. */
const warm = 30_000;
const events = 60_000;
const repeats = 3;

const programs = ["ours", "client-node", "parse"] as const;
type Program = (typeof programs)[number];

/**
 * Informers with the same server and Pods, each client three times in separate processes, alternating. A third program
 * only parses the events: `JSON.parse` is most of their cost.
 */
export const runtimeInformers: Benchmark = {
  name: "runtime-informers",
  async run() {
    const runs: Record<Program, InformerRun[]> = { ours: [], "client-node": [], parse: [] };
    let podBytes = 0;
    for (let index = 0; index < repeats; index++) {
      for (const who of programs) {
        // A missing peer is reported once.
        if (runs[who].length < index) continue;
        const server = await startPodServer(pods, warm + events);
        podBytes = server.podBytes;
        const args = [who, server.url, String(pods), String(warm), String(events)];
        try {
          const run = (): Promise<InformerRun> => runNodeProgram("./runtime/informer-program.js", args, ["--expose-gc"]);
          const measured = who === "client-node" ? await measurePeer(run) : await run();
          if (measured !== undefined) runs[who].push(measured);
        } finally {
          await server.stop();
        }
      }
    }
    const median = (who: Program, valueOf: (run: InformerRun) => number): number => percentile(runs[who].map(valueOf), 0.5);
    const figure = (name: string, unit: Figure["unit"], valueOf: (run: InformerRun) => number, note = ""): Figure => ({
      name,
      unit,
      ours: median("ours", valueOf),
      ...(runs["client-node"].length === 0
        ? {}
        : { peer: { name: "@kubernetes/client-node 2.0.1", value: median("client-node", valueOf) } }),
      note: `${pods} Pods of ${podBytes} B, median of ${repeats}${note}`,
    });
    const floor = (unit: string, valueOf: (run: InformerRun) => number): string =>
      `; JSON.parse of the same events alone: ${median("parse", valueOf).toFixed(unit === "us" ? 1 : 0)} ${unit}`;
    const perSecond = (run: InformerRun): number => run.eventsPerSecond;
    const cpu = (run: InformerRun): number => run.cpuMicrosecondsPerEvent;
    return [
      figure("informer: heap per cached Pod", "B", (run) => run.bytesPerPod),
      figure("informer: start to all Pods cached", "ms", (run) => run.listMs),
      figure("informer: watch events into the cache", "1/s", perSecond, floor("1/s", perSecond)),
      figure("informer: CPU per watch event", "us", cpu, floor("us", cpu)),
    ];
  },
};
