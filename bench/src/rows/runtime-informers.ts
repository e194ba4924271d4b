import { type Benchmark, type Figure, percentile } from "../figure.ts";
import { runNodeProgram } from "../node-program.ts";
import type { InformerRun } from "../runtime/informer-program.ts";
import { startPodServer } from "../runtime/pod-server.ts";

const pods = 5_000;
/** Changes before those that are measured: an informer runs for days, and what it runs is compiled in its first second. */
const warm = 30_000;
const events = 60_000;
const repeats = 3;

const programs = ["ours", "client-node", "parse"] as const;
type Program = (typeof programs)[number];

/**
 * Informers: the same server, the same Pods; each client three times in processes of its own, by turns. Beside them a program
 * that only parses what comes: most of an event's cost is `JSON.parse`, which every client pays whose consumers read what they are told.
 */
export const runtimeInformers: Benchmark = {
  name: "runtime-informers",
  async run() {
    const runs: Record<Program, InformerRun[]> = { ours: [], "client-node": [], parse: [] };
    let podBytes = 0;
    for (let index = 0; index < repeats; index++) {
      for (const who of programs) {
        const server = await startPodServer(pods, warm + events);
        podBytes = server.podBytes;
        const args = [who, server.url, String(pods), String(warm), String(events)];
        try {
          runs[who].push(await runNodeProgram<InformerRun>("./runtime/informer-program.js", args, ["--expose-gc"]));
        } finally {
          await server.stop();
        }
      }
    }
    const middle = (who: Program, valueOf: (run: InformerRun) => number): number => percentile(runs[who].map(valueOf), 0.5);
    const figure = (name: string, unit: Figure["unit"], valueOf: (run: InformerRun) => number, note = ""): Figure => ({
      name,
      unit,
      ours: middle("ours", valueOf),
      peer: { name: "@kubernetes/client-node 1.4.0", value: middle("client-node", valueOf) },
      note: `${pods} Pods of ${podBytes} B, median of ${repeats}${note}`,
    });
    const floor = (unit: string, valueOf: (run: InformerRun) => number): string =>
      `; JSON.parse of the same events and nothing else: ${middle("parse", valueOf).toFixed(unit === "us" ? 1 : 0)} ${unit}`;
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
