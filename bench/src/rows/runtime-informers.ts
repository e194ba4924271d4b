import { type Benchmark, type Figure, percentile } from "../figure.ts";
import { runNodeProgram } from "../node-program.ts";
import type { InformerRun } from "../runtime/informer-program.ts";
import { startPodServer } from "../runtime/pod-server.ts";

const pods = 5_000;
const events = 30_000;
const repeats = 3;

/** Informers: the same server, the same Pods; each client three times in processes of its own, by turns. */
export const runtimeInformers: Benchmark = {
  name: "runtime-informers",
  async run() {
    const runs: Record<"ours" | "client-node", InformerRun[]> = { ours: [], "client-node": [] };
    let podBytes = 0;
    for (let index = 0; index < repeats; index++) {
      for (const who of ["ours", "client-node"] as const) {
        const server = await startPodServer(pods, events);
        podBytes = server.podBytes;
        const args = [who, server.url, String(pods), String(events)];
        try {
          runs[who].push(await runNodeProgram<InformerRun>("./runtime/informer-program.js", args, ["--expose-gc"]));
        } finally {
          await server.stop();
        }
      }
    }
    const middle = (who: "ours" | "client-node", valueOf: (run: InformerRun) => number): number =>
      percentile(runs[who].map(valueOf), 0.5);
    const figure = (name: string, unit: Figure["unit"], valueOf: (run: InformerRun) => number): Figure => ({
      name,
      unit,
      ours: middle("ours", valueOf),
      peer: { name: "@kubernetes/client-node 1.4.0", value: middle("client-node", valueOf) },
      note: `${pods} Pods of ${podBytes} B, median of ${repeats}`,
    });
    return [
      figure("informer: heap per cached Pod", "B", (run) => run.bytesPerPod),
      figure("informer: start to all Pods cached", "ms", (run) => run.listMs),
      figure("informer: watch events into the cache", "1/s", (run) => run.eventsPerSecond),
      figure("informer: CPU per watch event", "us", (run) => run.cpuMicrosecondsPerEvent),
    ];
  },
};
