import { type DeepReadonly, isNotFound, type KubernetesObject, statusError } from "@keelson/api-machinery";
import { createVirtualClock } from "@keelson/api-machinery/testing";
import type { ApiRequest, Transport } from "@keelson/api-machinery/transport";
import { createClient, TransportError } from "@keelson/client";
import { expect, test } from "vitest";
import { createManager } from "./manager/create-manager.ts";
import { type Logger, silentLogger } from "./logging/logger.ts";
import { defineController } from "./reconcile/define-controller.ts";
import { FakeApiServer } from "./testing/fake-api-server.ts";
import { type ConfigMap, configMapType, type Robot, robotType } from "./testing/kinds.ts";

const finalizer = "example.org/parts";
const keys = ["a/one", "a/two", "b/one", "b/two"].map((id) => {
  const [namespace = "", name = ""] = id.split("/");
  return { namespace, name };
});
const idOf = ({ metadata }: DeepReadonly<KubernetesObject>): string => `${metadata.namespace}/${metadata.name}`;

/** Numbers in [0, 1), the same ones for a seed (mulberry32). */
function seeded(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** Loses and refuses requests, before or after they had their effect, as long as `isOn` says so. */
function faulty(api: FakeApiServer, random: () => number, isOn: () => boolean): Transport {
  const lose = (): void => {
    if (isOn() && random() < 0.1) throw new TransportError("ConnectionLost", "cut");
  };
  const refusals = [
    statusError("TooManyRequests", "later", { retryAfterSeconds: 1 }),
    statusError("ServiceUnavailable", "later", { retryAfterSeconds: 2 }),
    statusError("InternalError", "broken"),
  ];
  return {
    async request(request) {
      lose();
      const refusal = isOn() && random() < 0.1 ? refusals[Math.floor(random() * refusals.length)] : undefined;
      if (refusal !== undefined) return { status: refusal.status.code ?? 500, headers: {}, body: refusal.status };
      const answer = await api.request(request);
      lose();
      return answer;
    },
    watch(request: ApiRequest) {
      lose();
      return api.watch(request);
    },
    close: async () => {},
  };
}

/** Creates a ConfigMap for every Robot, and deletes it with a finalizer. Records the state that each reconcile started with. */
function partsController(seen: Map<string, string>, problems: string[]) {
  const running = new Set<string>();
  return defineController({
    ...{ name: "parts", for: robotType, owns: [configMapType], maxConcurrentReconciles: 3 },
    async reconcile(key, { cache, client }) {
      const id = `${key.namespace}/${key.name}`;
      if (running.has(id)) problems.push(`concurrent reconciles of ${id}`);
      running.add(id);
      try {
        const robot = cache.get(robotType, key);
        seen.set(id, robot?.metadata.resourceVersion ?? "gone");
        const part = cache.get(configMapType, key);
        const isWanted = robot !== undefined && robot.metadata.deletionTimestamp === undefined;
        if (part !== undefined && (!isWanted || part.data?.["of"] !== robot.metadata.uid)) {
          await client.delete(configMapType, key).catch((error: unknown) => {
            if (!isNotFound(error)) throw error;
          });
          return;
        }
        if (robot === undefined) return;
        const finalizers = isWanted ? [finalizer] : [];
        if ((robot.metadata.finalizers ?? []).join() !== finalizers.join()) {
          await client.update(robotType, { ...robot, metadata: { ...robot.metadata, finalizers } });
          return;
        }
        const data = { of: robot.metadata.uid ?? "", size: String(robot.spec?.size) };
        if (part?.data?.["size"] === data.size) return;
        const ownerReferences = [{ ...owner, name: key.name, uid: data.of, controller: true }];
        await client.apply(configMapType, { metadata: { ...key, ownerReferences }, data });
      } finally {
        running.delete(id);
      }
    },
  });
}
const owner = { apiVersion: "example.org/v1", kind: "Robot" };

const seeds = Array.from({ length: 40 }, (_, index) => index + 1);

test.each(seeds)(
  "seed %i: cache, handlers and controllers converge on the server's state despite lost, refused, cut and compacted requests",
  async (seed) => {
    const random = seeded(seed);
    const api = new FakeApiServer();
    api.streams = seed % 4 === 1 ? "unmarked" : true;
    api.pageSize = 3;
    const clock = createVirtualClock();
    let isCalm = false;
    const problems: string[] = [];
    const logger: Logger = {
      ...silentLogger,
      error: (_, message) => void (/panicked|handler/.test(message) && problems.push(message)),
      child: () => logger,
    };
    const direct = createClient({ transport: api, fieldManager: "test", clock });
    const client = createClient({ transport: faulty(api, random, () => !isCalm), fieldManager: "parts", clock });
    const seen = new Map<string, string>();
    const manager = createManager({
      ...{ client, clock, random, logger, name: "parts", controllers: [partsController(seen, problems)] },
      cache: { initialList: seed % 2 === 0 ? "pages" : "stream" },
    });
    const handled = [robotType, configMapType].map((type) => {
      const replay = new Map<string, DeepReadonly<KubernetesObject>>();
      manager.onChange<Robot | ConfigMap>(type, (change) => {
        const id = idOf(change.object);
        const had = replay.get(id);
        const isRight =
          change.type === "create"
            ? had === undefined
            : change.old === had && had?.metadata.uid === change.object.metadata.uid && had !== undefined;
        const isNew =
          change.type !== "update" || Number(change.object.metadata.resourceVersion) > Number(had?.metadata.resourceVersion);
        if (!isRight || !isNew) problems.push(`${change.type} of ${type.kind} ${id} after ${had?.metadata.resourceVersion}`);
        if (change.type === "delete") replay.delete(id);
        else replay.set(id, change.object);
      });
      return { type, replay };
    });
    const starting = manager.start();

    for (let step = 0; step < 150; step++) {
      const key = keys[Math.floor(random() * keys.length)] ?? { namespace: "a", name: "one" };
      const write = random();
      const spec = { size: step };
      if (write < 0.3) await direct.create(robotType, { metadata: key, spec }).catch(() => {});
      else if (write < 0.7) await direct.patch(robotType, key, { type: "merge", body: { spec } }).catch(() => {});
      else if (write < 0.9) await direct.delete(robotType, key).catch(() => {});
      else await direct.delete(configMapType, key).catch(() => {});
      const fault = random();
      if (fault < 0.05) api.endWatches();
      else if (fault < 0.1) api.endWatches(new TransportError("ConnectionLost", "cut"));
      else if (fault < 0.15) api.compact();
      else if (fault < 0.18) api.send({ type: "ERROR", object: statusError("Expired", "too old").status });
      else if (fault < 0.21) api.bookmark();
      else if (fault < 0.3) api.pause();
      else if (fault < 0.45) api.resume();
      await clock.advance(random() < 0.7 ? random() * 20 : random() * 3_000);
    }

    isCalm = true;
    api.resume();
    const server = (type: typeof robotType | typeof configMapType): DeepReadonly<KubernetesObject>[] =>
      [...api.objects].filter(([path]) => path.includes(`/${type.plural}/`)).map(([, object]) => object);
    const stateOf = (objects: Iterable<DeepReadonly<KubernetesObject>>): string[] =>
      [...objects].map((object) => `${idOf(object)} ${object.metadata.uid} ${object.metadata.resourceVersion}`).sort();
    // A reconcile that failed often waits for minutes.
    await clock.advance(40 * 60_000);
    await starting;
    expect(problems).toEqual([]);
    for (const { type, replay } of handled) {
      expect(stateOf(manager.cache.list<Robot | ConfigMap>(type))).toEqual(stateOf(server(type)));
      expect(stateOf(replay.values())).toEqual(stateOf(server(type)));
    }
    const robots = new Map(server(robotType).map((robot) => [idOf(robot), robot]));
    for (const [id, version] of seen) expect([id, version]).toEqual([id, robots.get(id)?.metadata.resourceVersion ?? "gone"]);
    expect(server(configMapType).map((part) => [idOf(part), (part as ConfigMap).data])).toEqual(
      expect.arrayContaining(
        [...robots].map(([id, robot]) => [id, { of: robot.metadata.uid, size: String((robot as Robot).spec?.size) }]),
      ),
    );
    expect(server(configMapType)).toHaveLength(robots.size);

    await manager.stop();
    expect([clock.pendingTimers, api.openWatches]).toEqual([0, 0]);
  },
);
