import { type Benchmark, percentile } from "../../figure.ts";
import { measurePeer } from "../../missing-peer.ts";
import { runNodeProgram } from "../../node-program.ts";

const repeats = 7;

/** Import time of the runtime, each in a new process. */
export const importTime: Benchmark = {
  name: "import-time",
  async run() {
    const ours: number[] = [];
    const peers: number[] = [];
    for (let index = 0; index < repeats; index++) {
      ours.push(await importOnce("@keelson/controller"));
      if (peers.length < index) continue;
      const peer = await measurePeer(() => importOnce("@kubernetes/client-node"));
      if (peer !== undefined) peers.push(peer);
    }
    return [
      {
        name: "import of @keelson/controller, p50",
        unit: "ms" as const,
        ours: percentile(ours, 0.5),
        ...(peers.length === 0 ? {} : { peer: { name: "@kubernetes/client-node 2.0.1", value: percentile(peers, 0.5) } }),
        note: `${repeats} processes each`,
      },
    ];
  },
};

async function importOnce(name: string): Promise<number> {
  return (await runNodeProgram<{ readonly ms: number }>("./runtime/import-program.js", [name])).ms;
}
