import { type Benchmark, percentile } from "../figure.ts";
import { runNodeProgram } from "../node-program.ts";

const repeats = 7;

/** What a program waits for before its own first line when it imports the runtime. Every time in a process of its own. */
export const importTime: Benchmark = {
  name: "import-time",
  async run() {
    const ours: number[] = [];
    const peers: number[] = [];
    for (let index = 0; index < repeats; index++) {
      ours.push(await importOnce("@keelson/controller"));
      peers.push(await importOnce("@kubernetes/client-node"));
    }
    return [
      {
        name: "import of @keelson/controller, p50",
        unit: "ms",
        ours: percentile(ours, 0.5),
        peer: { name: "@kubernetes/client-node 1.4.0", value: percentile(peers, 0.5) },
        note: `${repeats} processes each`,
      },
    ];
  },
};

async function importOnce(name: string): Promise<number> {
  return (await runNodeProgram<{ readonly ms: number }>("./runtime/import-program.js", [name])).ms;
}
