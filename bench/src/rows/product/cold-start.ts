import { spawnSync } from "node:child_process";
import type { Benchmark } from "../../figure.ts";
import { percentile } from "../../figure.ts";
import { startLocalKeelson } from "../../local-keelson.ts";

const runs = 5;

/** From `keelson up` with an empty data directory to `ready`. */
export const coldStart: Benchmark = {
  name: "cold-start",
  async run() {
    const first: number[] = [];
    const bare: number[] = [];
    for (let run = 0; run < runs; run++) {
      const keelson = await startLocalKeelson();
      first.push(keelson.readyMs);
      await keelson.stop();
      const started = performance.now();
      spawnSync(process.execPath, ["-e", "0"]);
      bare.push(performance.now() - started);
    }
    return [
      {
        name: "keelson up -> ready, empty directory, median",
        unit: "ms",
        ours: percentile(first, 0.5),
        peer: { name: "node -e 0", value: percentile(bare, 0.5) },
        note: `${runs} runs; target: under 2000 ms`,
      },
    ];
  },
};
