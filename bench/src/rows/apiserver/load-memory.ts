import { setTimeout as delay } from "node:timers/promises";
import { join } from "node:path";
import { connect } from "@keelson/client";
import { etcdTarget } from "../../apiserver/etcd-target.ts";
import { keelsonTarget } from "../../apiserver/keelson-target.ts";
import type { LoadTarget } from "../../apiserver/load.ts";
import { type ServerProcess, startEtcd, startKeelsonServer } from "../../apiserver/servers.ts";
import type { Benchmark, Figure } from "../../figure.ts";
import { withFolder } from "../../folder.ts";
import { measurePeer } from "../../missing-peer.ts";

const objects = 16_000;
const clients = 16;
const lists = 3;
const restMs = 30_000;

/** Memory of an API server after many creates and full lists, and 30 s later, compared with etcd. */
export const loadMemory: Benchmark = {
  name: "load-memory",
  run: () =>
    withFolder(async (dir) => {
      const ours = await ofKeelson(join(dir, "keelson"));
      const peer = await measurePeer(() => ofEtcd(join(dir, "etcd")));
      const figure = (when: string, value: number, peerValue: number | undefined): Figure => ({
        name: `api server: memory ${when} ${objects} creates and ${lists} lists`,
        unit: "MiB",
        ours: value / 2 ** 20,
        ...(peerValue === undefined ? {} : { peer: { name: "etcd", value: peerValue / 2 ** 20 } }),
        note: `2-KB objects; anonymous memory; resident with mapped files: ${ours.resident.map(Math.round).join(", then ")} MiB`,
      });
      return [
        figure("after", ours.loadedBytes, peer?.loadedBytes),
        figure(`${restMs / 1_000} s after`, ours.restedBytes, peer?.restedBytes),
      ];
    }),
};

interface LoadMemory {
  readonly loadedBytes: number;
  readonly restedBytes: number;
  /** Resident memory with mapped files, at the same two times. */
  readonly resident: readonly [number, number];
}

async function ofKeelson(dir: string): Promise<LoadMemory> {
  const server = await startKeelsonServer(dir);
  try {
    const client = await connect({ kubeconfig: join(dir, "kubeconfig") });
    const memory = await measure(server, keelsonTarget(client));
    await client.close();
    return memory;
  } finally {
    await server.stop();
  }
}

async function ofEtcd(dir: string): Promise<LoadMemory> {
  const etcd = await startEtcd(dir);
  try {
    return await measure(etcd, etcdTarget(etcd.client));
  } finally {
    await etcd.stop();
  }
}

async function measure(server: ServerProcess, target: LoadTarget): Promise<LoadMemory> {
  let created = 0;
  await Promise.all(
    Array.from({ length: clients }, async () => {
      while (created < objects) await target.create(`object-${created++}`);
    }),
  );
  for (let index = 0; index < lists; index++) await target.list();
  const loadedBytes = server.memoryBytes();
  const loaded = server.residentMiB();
  await delay(restMs);
  return { loadedBytes, restedBytes: server.memoryBytes(), resident: [loaded, server.residentMiB()] };
}
