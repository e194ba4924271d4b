import { setTimeout } from "node:timers/promises";
import { ConfigMap, type ConfigMapObject } from "@keelson/api-machinery/kinds";
import { type Client, connect, type TypedWatch } from "@keelson/client";
import { IntegrationTest } from "@keelson/testplane";
import { type Benchmark, type Figure, percentile } from "../../figure.ts";
import { startLocalKeelson } from "../../local-keelson.ts";

const namespace = "default";
/** Requests under way at the same time, while many objects are created. */
const parallelRequests = 16;
const changes = 50;

/** Interval of the peer's loop, that of chainsaw. */
const pollMs = 50;

/** Set-up of many tests that wait, the reaction of one among them, and many changes at the same time. */
export const testScale: Benchmark = {
  name: "test-scale",
  async run() {
    const keelson = await startLocalKeelson(undefined, "--only", "cluster,testplane");
    const client = await connect({ kubeconfig: keelson.kubeconfig });
    const tests = await WatchedObjects.open(client, IntegrationTest);
    const objects = await WatchedObjects.open(client, ConfigMap);
    const bench: Bench = { client, tests, objects };
    try {
      const few = await waitingTests(bench, "few", 100);
      const fewReactions = await reactions(bench, "few");
      const many = await waitingTests(bench, "many", 400);
      const burst = await burstOf(bench, "many", 360);
      await waitingTests(bench, "more", 860);
      const moreReactions = await reactions(bench, "more");
      return [
        reactionRow(100, fewReactions),
        reactionRow(1_000, moreReactions),
        {
          name: "400 tests created -> all of their objects exist",
          unit: "ms",
          ours: many.tests,
          peer: { name: "the objects without tests", value: many.bare },
          note: `${parallelRequests} requests at the same time; 100 tests: ${few.tests.toFixed(0)} ms`,
        },
        {
          name: "360 objects changed -> 360 tests complete",
          unit: "ms",
          ours: burst.tests,
          peer: { name: "two writes of 360 objects", value: burst.bare },
          original: { what: "polls every 5 s: mean wait", value: 2500 },
          note: `${parallelRequests} requests at the same time`,
        },
      ];
    } finally {
      tests.close();
      objects.close();
      await client.close();
      await keelson.stop();
    }
  },
};

interface Bench {
  readonly client: Client;
  readonly tests: WatchedObjects;
  readonly objects: WatchedObjects;
}

/** Milliseconds from changes to their effects. */
interface Reactions {
  readonly ours: readonly number[];
  readonly polling: readonly number[];
  readonly bare: readonly number[];
}

function reactionRow(waiting: number, { ours, polling, bare }: Reactions): Figure {
  return {
    name: `object changed -> test complete, ${waiting} waiting tests, p99`,
    unit: "ms",
    ours: percentile(ours, 0.99),
    peer: { name: `a loop that reads one object every ${pollMs} ms`, value: percentile(polling, 0.99) },
    note: `${ours.length} changes, one after another; p50 ${percentile(ours, 0.5).toFixed(1)} ms, two writes without a test ${percentile(bare, 0.99).toFixed(1)} ms`,
  };
}

const nameOf = (set: string, index: number): string => `${set}-${index}`;

/**
 * Creates tests that each apply an object and wait for its change, and waits until they wait. Returns how long it took until the objects
 * existed, with and without tests.
 */
async function waitingTests(
  { client, tests, objects }: Bench,
  set: string,
  count: number,
): Promise<{ readonly tests: number; readonly bare: number }> {
  const bare = await timed(
    objects.until(count, ({ metadata }) => metadata.name?.startsWith(`bare-${set}-`) === true),
    () => inParallel(count, (index) => client.create(ConfigMap, { metadata: { name: `bare-${set}-${index}`, namespace } })),
  );
  const isOfSet = ({ metadata }: Watched): boolean => metadata.name?.startsWith(`${set}-`) === true;
  const waiting = tests.until(count, (test) => isOfSet(test) && test.status?.steps?.[0]?.expectationResults !== undefined);
  const created = await timed(objects.until(count, isOfSet), () =>
    inParallel(count, (index) => client.create(IntegrationTest, testOf(nameOf(set, index)))),
  );
  await waiting;
  return { tests: created, bare };
}

const testOf = (name: string) => ({
  metadata: { name, namespace },
  spec: {
    steps: [
      {
        name: "wait",
        resource: { manifest: { apiVersion: "v1", kind: "ConfigMap", metadata: { name } } },
        expectations: { allOf: [{ function: "FieldEquals", params: { path: "data.go", value: "yes" } }] },
      },
    ],
  },
});

const isComplete = ({ status }: Watched): boolean => status?.completionTime !== undefined;

/** Times from a change to the completion of the test, to the next look of a polling loop, and of two writes without a test. */
async function reactions({ client, tests }: Bench, set: string): Promise<Reactions> {
  const [ours, polling, bare]: [number[], number[], number[]] = [[], [], []];
  for (let index = 0; index < changes; index++) {
    const name = nameOf(set, index);
    ours.push(
      await timed(
        tests.until(1, (test) => test.metadata.name === name && isComplete(test)),
        () => change(client, name),
      ),
    );
    const polled = `bare-${set}-${index}`;
    polling.push(await timed(polledUntil(client, polled), () => change(client, polled)));
    const startedAt = performance.now();
    await client.patch(ConfigMap, { namespace, name }, { type: "merge", body: { data: { bare: "1" } } });
    await client.create(ConfigMap, { metadata: { name: `reaction-${set}-${index}`, namespace } });
    bare.push(performance.now() - startedAt);
  }
  return { ours, polling, bare };
}

async function polledUntil(client: Client, name: string): Promise<void> {
  for (;;) {
    const { data } = await client.get(ConfigMap, { namespace, name });
    if (data?.["go"] === "yes") return;
    await setTimeout(pollMs);
  }
}

/** Changes the objects of many tests at the same time, and waits until the tests are complete. */
async function burstOf(
  { client, tests }: Bench,
  set: string,
  count: number,
): Promise<{ readonly tests: number; readonly bare: number }> {
  const bareStart = performance.now();
  for (const key of ["first", "second"]) {
    await inParallel(count, (index) =>
      client.patch(ConfigMap, { namespace, name: `bare-${set}-${index}` }, { type: "merge", body: { data: { [key]: "1" } } }),
    );
  }
  const bare = performance.now() - bareStart;
  const complete = tests.until(count, (test) => test.metadata.name?.startsWith(`${set}-`) === true && isComplete(test));
  return { tests: await timed(complete, () => inParallel(count, (index) => change(client, nameOf(set, index)))), bare };
}

const change = (client: Client, name: string): Promise<unknown> =>
  client.patch(ConfigMap, { namespace, name }, { type: "merge", body: { data: { go: "yes" } } });

/** How long it takes from the start of some work to its effect. */
async function timed(effect: Promise<void>, work: () => Promise<unknown>): Promise<number> {
  const startedAt = performance.now();
  await Promise.all([effect, work()]);
  return performance.now() - startedAt;
}

interface Watched {
  readonly metadata: { readonly name?: string };
  readonly status?: { readonly completionTime?: string; readonly steps?: readonly { readonly expectationResults?: unknown }[] };
}

/** The objects of a kind. One watch serves the whole benchmark: opening one sends all objects. */
class WatchedObjects {
  readonly #watch: TypedWatch<ConfigMapObject>;
  readonly #waits = new Set<(object: Watched) => void>();

  private constructor(watch: TypedWatch<ConfigMapObject>) {
    this.#watch = watch;
    void this.#read();
  }

  static async open(client: Client, type: typeof ConfigMap | typeof IntegrationTest): Promise<WatchedObjects> {
    return new WatchedObjects(await client.watch(type as typeof ConfigMap, { namespace }));
  }

  /** Waits until `count` different objects have matched, from now on. */
  until(count: number, matches: (object: Watched) => boolean): Promise<void> {
    return new Promise((resolve) => {
      const names = new Set<string>();
      const wait = (object: Watched): void => {
        if (!matches(object)) return;
        names.add(object.metadata.name ?? "");
        if (names.size < count) return;
        this.#waits.delete(wait);
        resolve();
      };
      this.#waits.add(wait);
    });
  }

  close(): void {
    this.#watch.close();
  }

  async #read(): Promise<void> {
    for await (const event of this.#watch) {
      if (event.type === "BOOKMARK") continue;
      for (const wait of [...this.#waits]) wait(event.object as Watched);
    }
  }
}

async function inParallel(count: number, run: (index: number) => Promise<unknown>): Promise<void> {
  let next = 0;
  const work = async (): Promise<void> => {
    for (let index = next++; index < count; index = next++) await run(index);
  };
  await Promise.all(Array.from({ length: parallelRequests }, work));
}
