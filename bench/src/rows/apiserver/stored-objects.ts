import { join } from "node:path";
import { connect } from "@keelson/client";
import { etcdTarget, fillEtcd } from "../../apiserver/etcd-target.ts";
import { keelsonTarget } from "../../apiserver/keelson-target.ts";
import type { LoadTarget } from "../../apiserver/load.ts";
import { type ServerProcess, startEtcd, startKeelsonServer } from "../../apiserver/servers.ts";
import type { Benchmark } from "../../figure.ts";
import { withFolder } from "../../folder.ts";
import { measurePeer } from "../../missing-peer.ts";
import { runNodeProgram } from "../../node-program.ts";

/** Number of stored objects at a start. */
const objects = 100_000;
/** Number of reads before memory is measured, so that the server has warmed up, and number of clients. */
const reads = 5_000;
const clients = 16;

/** Memory and start time of an API server per stored object, compared with etcd. */
export const storedObjects: Benchmark = {
  name: "stored-objects",
  run: () =>
    withFolder(async (dir) => {
      const ours = await ofKeelson(join(dir, "keelson"), join(dir, "keelson-empty"));
      const peer = await measurePeer(() => ofEtcd(join(dir, "etcd"), join(dir, "etcd-empty")));
      return [
        {
          name: `api server: memory per object with ${objects} objects`,
          unit: "B" as const,
          ours: ours.bytesPerObject,
          ...(peer === undefined ? {} : { peer: { name: "etcd", value: peer.bytesPerObject } }),
          note: `2-KB objects; difference to one object, after ${reads} reads; anonymous memory`,
        },
        {
          name: `api server: start with ${objects} objects`,
          unit: "ms" as const,
          ours: ours.startMs,
          ...(peer === undefined ? {} : { peer: { name: "etcd", value: peer.startMs } }),
          note: "2-KB objects; from the start of the process until it serves",
        },
      ];
    }),
};

interface Cost {
  readonly bytesPerObject: number;
  readonly startMs: number;
}

async function ofKeelson(dir: string, emptyDir: string): Promise<Cost> {
  await runNodeProgram<number>("./apiserver/fill-program.js", [dir, String(objects)]);
  const measure = async (folder: string, count: number): Promise<{ bytes: number; startMs: number }> => {
    const server = await startKeelsonServer(folder);
    try {
      const client = await connect({ kubeconfig: join(folder, "kubeconfig") });
      const bytes = await memoryAfterReads(server, keelsonTarget(client), count);
      await client.close();
      return { bytes, startMs: server.startMs };
    } finally {
      await server.stop();
    }
  };
  const empty = await measure(emptyDir, 1);
  const { bytes, startMs } = await measure(dir, objects);
  return { bytesPerObject: (bytes - empty.bytes) / objects, startMs };
}

async function ofEtcd(dir: string, emptyDir: string): Promise<Cost> {
  const filled = await startEtcd(dir);
  try {
    await fillEtcd(filled.client, objects);
  } finally {
    await filled.stop();
  }
  const measure = async (folder: string, count: number): Promise<{ bytes: number; startMs: number }> => {
    const etcd = await startEtcd(folder);
    try {
      return { bytes: await memoryAfterReads(etcd, etcdTarget(etcd.client), count), startMs: etcd.startMs };
    } finally {
      await etcd.stop();
    }
  };
  const empty = await measure(emptyDir, 1);
  const { bytes, startMs } = await measure(dir, objects);
  return { bytesPerObject: (bytes - empty.bytes) / objects, startMs };
}

/** Memory after {@link reads} of `count` objects. A single object is created first. */
async function memoryAfterReads(server: ServerProcess, target: LoadTarget, count: number): Promise<number> {
  if (count === 1) await target.create("object-0");
  let next = 0;
  await Promise.all(
    Array.from({ length: clients }, async () => {
      while (next < reads) await target.get(`object-${(next++ * 7_919) % count}`);
    }),
  );
  return server.memoryBytes();
}
