import { join } from "node:path";
import { connect } from "@keelson/client";
import { etcdWatchTarget } from "../../apiserver/etcd-target.ts";
import { type FanOut, measureFanOut } from "../../apiserver/fan-out.ts";
import { keelsonWatchTarget } from "../../apiserver/keelson-target.ts";
import { startEtcd, startKeelsonServer } from "../../apiserver/servers.ts";
import type { Benchmark, Figure } from "../../figure.ts";
import { withFolder } from "../../folder.ts";
import { measurePeer } from "../../missing-peer.ts";

/** Delivery of changes to 1 and 100 watchers over HTTPS, compared with etcd's watches over gRPC. */
export const watchFanOut: Benchmark = {
  name: "watch-fan-out",
  run: () =>
    withFolder(async (dir) => {
      const ours = await overHttps(join(dir, "keelson"));
      const peers = await measurePeer(() => ofEtcd(join(dir, "etcd")));
      return ours.flatMap((run) =>
        figuresOf(
          run,
          peers?.find(({ watchers }) => watchers === run.watchers),
        ),
      );
    }),
};

async function overHttps(dir: string): Promise<readonly FanOut[]> {
  const server = await startKeelsonServer(dir);
  try {
    const client = await connect({ kubeconfig: join(dir, "kubeconfig") });
    const runs = await measureFanOut(keelsonWatchTarget(client));
    await client.close();
    return runs;
  } finally {
    await server.stop();
  }
}

async function ofEtcd(dir: string): Promise<readonly FanOut[]> {
  const etcd = await startEtcd(dir);
  try {
    return await measureFanOut(etcdWatchTarget(etcd.client));
  } finally {
    await etcd.stop();
  }
}

const etcdName = "etcd watch over gRPC";

function figuresOf(ours: FanOut, peer: FanOut | undefined): Figure[] {
  const of = `1 writer, ${ours.watchers} watcher${ours.watchers === 1 ? "" : "s"}`;
  return [
    {
      name: `watch, ${of}: events delivered`,
      unit: "1/s",
      ours: ours.perSecond,
      ...(peer === undefined ? {} : { peer: { name: etcdName, value: peer.perSecond } }),
      note: "2-KB objects, durable; watchers share one process with the writer",
    },
    {
      name: `watch, ${of}: write sent -> event, p99`,
      unit: "ms",
      ours: ours.delayP99Ms,
      ...(peer === undefined ? {} : { peer: { name: etcdName, value: peer.delayP99Ms } }),
      note: "one write every 5 ms",
    },
  ];
}
