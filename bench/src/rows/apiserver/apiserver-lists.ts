import { join } from "node:path";
import { createAll } from "../../apiserver/creates.ts";
import { startKubeApiServer } from "../../apiserver/kube-apiserver.ts";
import { connectService } from "../../apiserver/raw/service.ts";
import { type ServerProcess, startKeelsonServer } from "../../apiserver/servers.ts";
import { type Benchmark, type Figure, percentile } from "../../figure.ts";
import { withFolder } from "../../folder.ts";
import { measurePeer } from "../../missing-peer.ts";

const objects = 10_000;
const clients = 16;
const rounds = 7;
/** A list whose CPU time is compared takes many ticks of the system's accounting. */
const listsPerRound = 3;

/** Full lists in JSON over HTTPS, alternating with kube-apiserver. The client counts the bytes and does not parse them. */
export const apiServerLists: Benchmark = {
  name: "apiserver-lists",
  run: () =>
    withFolder(async (dir) => {
      const keelson = await startKeelsonServer(join(dir, "keelson"));
      const kube = await measurePeer(() => startKubeApiServer(join(dir, "kube")));
      try {
        for (const server of kube === undefined ? [keelson] : [keelson, kube]) {
          await createAll(server.service, { name: "object", count: objects, clients });
        }
        return await figuresFor(keelson, kube);
      } finally {
        for (const server of [keelson, kube]) await server?.stop();
      }
    }),
};

/** Time per MB of the response, in ms. */
interface ListCost {
  readonly wallMs: number;
  readonly processorMs: number;
}

async function figuresFor(keelson: ServerProcess, kube: ServerProcess | undefined): Promise<readonly Figure[]> {
  const ours: ListCost[] = [];
  const peers: ListCost[] = [];
  for (let round = 0; round < rounds; round++) {
    ours.push(await listCost(keelson));
    if (kube !== undefined) peers.push(await listCost(kube));
  }
  const figure = (what: string, field: keyof ListCost): Figure => {
    const median = (costs: readonly ListCost[]): number =>
      percentile(
        costs.map((cost) => cost[field]),
        0.5,
      );
    return {
      name: `list of ${objects} over https, per MB: ${what}`,
      unit: "ms",
      ours: median(ours),
      ...(kube === undefined ? {} : { peer: { name: "kube-apiserver", value: median(peers) } }),
      note: `2-KB objects; median of ${rounds} alternating runs`,
    };
  };
  return [figure("time", "wallMs"), figure("CPU time of the server", "processorMs")];
}

async function listCost(server: ServerProcess): Promise<ListCost> {
  const client = await connectService(server.service);
  const used = server.cpuMs();
  const started = performance.now();
  let bytes = 0;
  for (let index = 0; index < listsPerRound; index++) bytes += await client.list();
  const wallMs = performance.now() - started;
  client.close();
  const megabytes = bytes / 1e6;
  return { wallMs: wallMs / megabytes, processorMs: (server.cpuMs() - used) / megabytes };
}
