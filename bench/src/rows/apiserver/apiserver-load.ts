import { join } from "node:path";
import { connect } from "@keelson/client";
import { etcdTarget } from "../../apiserver/etcd-target.ts";
import { keelsonTarget } from "../../apiserver/keelson-target.ts";
import { type LoadRun, loadObjects, measureLoad } from "../../apiserver/load.ts";
import { startEtcd, startKeelsonServer } from "../../apiserver/servers.ts";
import type { Benchmark, Figure } from "../../figure.ts";
import { withFolder } from "../../folder.ts";
import { measurePeer } from "../../missing-peer.ts";
import { runNodeProgram } from "../../node-program.ts";

/** Requests to the API server, over HTTPS and in process, compared with etcd over gRPC. All writes are durable. */
export const apiServerLoad: Benchmark = {
  name: "apiserver-load",
  run: () =>
    withFolder(async (dir) => {
      const inProcess = await runNodeProgram<LoadRun>("./apiserver/in-process-program.js", [join(dir, "in-process")]);
      const http = await loadKeelson(join(dir, "keelson"));
      const peer = await measurePeer(() => loadEtcd(join(dir, "etcd")));
      return [...figuresOf("https", http, peer), ...figuresOf("in process", inProcess, peer)];
    }),
};

async function loadKeelson(dir: string): Promise<LoadRun> {
  const server = await startKeelsonServer(dir);
  try {
    const client = await connect({ kubeconfig: join(dir, "kubeconfig") });
    const run = await measureLoad(keelsonTarget(client));
    await client.close();
    return run;
  } finally {
    await server.stop();
  }
}

async function loadEtcd(dir: string): Promise<LoadRun> {
  const etcd = await startEtcd(dir);
  try {
    return await measureLoad(etcdTarget(etcd.client));
  } finally {
    await etcd.stop();
  }
}

const etcdName = "etcd put/get/range over gRPC";

function figuresOf(way: string, ours: LoadRun, peer: LoadRun | undefined): Figure[] {
  const rates = Object.entries(ours.perSecond).map(([what, value]): Figure => {
    const [operation = "", clients = ""] = what.split(" ");
    return {
      name: `api server, ${way}: ${operation}, ${clients} client${clients === "1" ? "" : "s"}`,
      unit: "1/s",
      ours: value,
      ...(peer === undefined ? {} : { peer: { name: etcdName, value: peer.perSecond[what] ?? 0 } }),
      note: "2-KB objects, durable",
    };
  });
  const list: Figure = {
    name: `api server, ${way}: list of ${loadObjects}, p50`,
    unit: "ms",
    ours: ours.listMs,
    ...(peer === undefined ? {} : { peer: { name: etcdName, value: peer.listMs } }),
    note: "2-KB objects",
  };
  return [...rates, list];
}
