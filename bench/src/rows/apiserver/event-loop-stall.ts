import { join } from "node:path";
import { measureCreates } from "../../apiserver/creates.ts";
import { startKeelsonServer } from "../../apiserver/servers.ts";
import type { Benchmark } from "../../figure.ts";
import { withFolder } from "../../folder.ts";

const clients = 16;
const watchers = 100;
const durationMs = 60_000;
const warmUpMs = 5_000;

/** The longest turn of the API server's event loop in a minute of creates by 16 clients that 100 watchers follow. */
export const eventLoopStall: Benchmark = {
  name: "event-loop-stall",
  run: () =>
    withFolder(async (dir) => {
      const server = await startKeelsonServer(join(dir, "keelson"));
      try {
        const load = { clients, watchers };
        await measureCreates(server, { ...load, name: "warm", durationMs: warmUpMs });
        await server.takeLongestTurns();
        const { perSecond } = await measureCreates(server, { ...load, name: "object", durationMs });
        const longest = await server.takeLongestTurns();
        const note = `${durationMs / 1000} s, ${clients} clients, ${watchers} watchers, ${Math.round(perSecond)} creates/s`;
        return [
          { name: "api server: longest turn of the event loop, CPU time", unit: "ms", ours: longest.processorMs, note },
          { name: "api server: longest turn of the event loop, wall clock", unit: "ms", ours: longest.wallMs, note },
        ];
      } finally {
        await server.stop();
      }
    }),
};
