import type { Etcd3 } from "etcd3";
import type { WatchTarget } from "./fan-out.ts";
import { type LoadTarget, payload } from "./load.ts";

/** The same payload in etcd, without schema, validation and field ownership. */
export function etcdTarget(client: Etcd3): LoadTarget {
  const put = (name: string): Promise<unknown> => client.put(keyOf(name)).value(textOf(name)).exec();
  return {
    create: put,
    update: put,
    get: async (name) => JSON.parse((await client.get(keyOf(name)).string()) ?? "null") as unknown,
    list: async () => {
      const found = await client.getAll().prefix("objects/").strings();
      return Object.values(found).map((value) => JSON.parse(value) as unknown).length;
    },
  };
}

/** Watches of the same writes. */
export function etcdWatchTarget(client: Etcd3): WatchTarget {
  return {
    write: (name) => client.put(keyOf(name)).value(textOf(name)).exec(),
    async watch(onWritten) {
      const watcher = await client.watch().prefix("objects/").create();
      watcher.on("put", ({ value }) => {
        const stored: { readonly name: string } = JSON.parse(value.toString());
        onWritten(stored.name);
      });
      return () => watcher.cancel();
    },
  };
}

/** Operations per transaction; etcd's limit is 128. */
const batch = 100;

/** Stores `count` objects in batches. */
export async function fillEtcd(client: Etcd3, count: number): Promise<void> {
  for (let first = 0; first < count; first += batch) {
    const names = Array.from({ length: Math.min(batch, count - first) }, (_, index) => `object-${first + index}`);
    await client
      .if("never", "Create", "==", 0)
      .then(...names.map((name) => client.put(keyOf(name)).value(textOf(name))))
      .commit();
  }
}

function keyOf(name: string): string {
  return `objects/${name}`;
}

function textOf(name: string): string {
  return JSON.stringify({ name, text: payload.padEnd(2_000, "x") });
}
