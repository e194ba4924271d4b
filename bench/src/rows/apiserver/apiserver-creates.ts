import { join } from "node:path";
import { type CreateOptions, type CreateRun, measureCreates } from "../../apiserver/creates.ts";
import { startKubeApiServer } from "../../apiserver/kube-apiserver.ts";
import { type ServerProcess, startEtcd, startKeelsonServer } from "../../apiserver/servers.ts";
import { type Benchmark, type Figure, percentile } from "../../figure.ts";
import { withFolder } from "../../folder.ts";
import { measurePeer } from "../../missing-peer.ts";

const rounds = 5;
const clients = 16;
const durationMs = 1_500;
const watcherCounts = [0, 100];

/** Durable creates by 16 clients over HTTPS, without watchers and with 100, alternating with etcd and kube-apiserver. */
export const apiServerCreates: Benchmark = {
  name: "apiserver-creates",
  run: () =>
    withFolder(async (dir) => {
      const keelson = await startKeelsonServer(join(dir, "keelson"));
      const etcd = await measurePeer(() => startEtcd(join(dir, "etcd")));
      const kube = await measurePeer(() => startKubeApiServer(join(dir, "kube")));
      try {
        return await figuresFor({ keelson, etcd, kube });
      } finally {
        for (const server of [keelson, etcd, kube]) await server?.stop();
      }
    }),
};

interface Servers {
  readonly keelson: ServerProcess;
  readonly etcd: ServerProcess | undefined;
  readonly kube: ServerProcess | undefined;
}

async function figuresFor(servers: Servers): Promise<readonly Figure[]> {
  const figures: Figure[] = [];
  for (const watchers of watcherCounts) {
    const runs = { keelson: [] as CreateRun[], etcd: [] as CreateRun[], kube: [] as CreateRun[] };
    for (let round = 0; round < rounds; round++) {
      for (const key of ["keelson", "etcd", "kube"] as const) {
        const server = servers[key];
        const options: CreateOptions = { name: `w${watchers}-r${round}`, clients, watchers, durationMs };
        if (server !== undefined) runs[key].push(await measureCreates(server, options));
      }
    }
    figures.push(...figuresOf(watchers, runs));
  }
  return figures;
}

function figuresOf(watchers: number, runs: Readonly<Record<keyof Servers, readonly CreateRun[]>>): Figure[] {
  const name = (what: string): string => `creates over https, ${clients} clients, ${watchers} watchers: ${what}`;
  const median = (key: keyof Servers, field: keyof CreateRun): number =>
    percentile(
      runs[key].map((run) => run[field]),
      0.5,
    );
  const figure = (what: string, unit: Figure["unit"], field: keyof CreateRun): Figure[] =>
    (["etcd", "kube"] as const).flatMap((key, index) => {
      const isMissing = runs[key].length === 0;
      if (isMissing && index > 0) return [];
      return {
        name: name(what),
        unit,
        ours: median("keelson", field),
        ...(isMissing
          ? {}
          : { peer: { name: key === "etcd" ? "etcd over gRPC" : "kube-apiserver", value: median(key, field) } }),
        note: `2-KB objects, durable; median of ${rounds} alternating runs of ${durationMs / 1000} s`,
      };
    });
  return [
    ...figure("creates", "1/s", "perSecond"),
    ...figure("duration, p99", "ms", "p99Ms"),
    ...figure("CPU time of the server per create", "us", "processorUs"),
    ...(watchers === 0 ? [] : figure("events delivered", "1/s", "eventsPerSecond")),
  ];
}
