import { ConfigMap } from "@keelson/api-machinery/kinds";
import { type Client, connect } from "@keelson/client";
import { IntegrationTest } from "@keelson/testplane";
import { type Benchmark, type Figure, percentile } from "../../figure.ts";
import { startLocalKeelson } from "../../local-keelson.ts";

const namespace = "default";
/** Requests under way at the same time, while many objects are created. */
const parallelRequests = 16;
const changes = 50;

/** Set-up of many tests that wait, the reaction of one among them, and many changes at the same time. */
export const testScale: Benchmark = {
  name: "test-scale",
  async run() {
    const keelson = await startLocalKeelson(undefined, "--only", "cluster,testplane");
    const client = await connect({ kubeconfig: keelson.kubeconfig });
    try {
      const few = await waitingTests(client, "few", 100);
      const [fewReactions, fewBare] = await reactions(client, "few", "a");
      const many = await waitingTests(client, "many", 400);
      const burst = await burstOf(client, "many", 360);
      await waitingTests(client, "more", 850);
      const [moreReactions, moreBare] = await reactions(client, "more", "b");
      return [
        reactionRow(100, fewReactions, fewBare),
        reactionRow(1_000, moreReactions, moreBare),
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
      await client.close();
      await keelson.stop();
    }
  },
};

function reactionRow(waiting: number, ours: readonly number[], bare: readonly number[]): Figure {
  return {
    name: `object changed -> test complete, ${waiting} waiting tests, p99`,
    unit: "ms",
    ours: percentile(ours, 0.99),
    peer: { name: "two writes without a test", value: percentile(bare, 0.99) },
    note: `${ours.length} changes, one after another; p50 ${percentile(ours, 0.5).toFixed(1)} ms`,
  };
}

const nameOf = (set: string, index: number): string => `${set}-${index}`;

/** Creates tests that each apply an object and wait for its change. Returns how long it took until the objects existed, with and without tests. */
async function waitingTests(
  client: Client,
  set: string,
  count: number,
): Promise<{ readonly tests: number; readonly bare: number }> {
  const bare = await timed(client, ConfigMap, `bare-${set}-`, count, (index) =>
    client.create(ConfigMap, { metadata: { name: `bare-${set}-${index}`, namespace } }),
  );
  const tests = await timed(client, ConfigMap, `${set}-`, count, (index) =>
    client.create(IntegrationTest, testOf(nameOf(set, index))),
  );
  return { tests, bare };
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

/** Times from a change to the completion of the test, and of two writes without one. */
async function reactions(client: Client, set: string, bare: string): Promise<readonly [readonly number[], readonly number[]]> {
  const [ours, alone]: [number[], number[]] = [[], []];
  for (let index = 0; index < changes; index++) {
    const name = nameOf(set, index);
    const started = performance.now();
    await Promise.all([
      ended(client, IntegrationTest, 1, (each) => each.metadata.name === name && each.status?.completionTime !== undefined),
      change(client, name),
    ]);
    ours.push(performance.now() - started);
    const restarted = performance.now();
    await client.patch(ConfigMap, { namespace, name }, { type: "merge", body: { data: { bare: "1" } } });
    await client.create(ConfigMap, { metadata: { name: `reaction-${bare}-${index}`, namespace } });
    alone.push(performance.now() - restarted);
  }
  return [ours, alone];
}

/** Changes the objects of many tests at the same time, and waits until the tests are complete. */
async function burstOf(client: Client, set: string, count: number): Promise<{ readonly tests: number; readonly bare: number }> {
  const bareStart = performance.now();
  for (const key of ["first", "second"]) {
    await inParallel(count, (index) =>
      client.patch(ConfigMap, { namespace, name: `bare-${set}-${index}` }, { type: "merge", body: { data: { [key]: "1" } } }),
    );
  }
  const bare = performance.now() - bareStart;
  const started = performance.now();
  const complete = ended(
    client,
    IntegrationTest,
    count,
    ({ metadata, status }) => metadata.name?.startsWith(`${set}-`) === true && status?.completionTime !== undefined,
  );
  await inParallel(count, (index) => change(client, nameOf(set, index)));
  await complete;
  return { tests: performance.now() - started, bare };
}

const change = (client: Client, name: string): Promise<unknown> =>
  client.patch(ConfigMap, { namespace, name }, { type: "merge", body: { data: { go: "yes" } } });

type Kind = typeof ConfigMap | typeof IntegrationTest;

/** How long it takes until `count` objects with a prefix exist that `create` causes. */
async function timed(
  client: Client,
  type: Kind,
  prefix: string,
  count: number,
  create: (index: number) => Promise<unknown>,
): Promise<number> {
  const started = performance.now();
  await Promise.all([
    ended(client, type, count, ({ metadata }) => metadata.name?.startsWith(prefix) === true),
    inParallel(count, create),
  ]);
  return performance.now() - started;
}

interface Watched {
  readonly metadata: { readonly name?: string };
  readonly status?: { readonly completionTime?: string };
}

/** Waits until `count` different objects match, from now on. */
async function ended(client: Client, type: Kind, count: number, matches: (object: Watched) => boolean): Promise<void> {
  const names = new Set<string>();
  const watch = await client.watch(type as typeof ConfigMap, { namespace });
  try {
    for await (const event of watch) {
      if (event.type === "BOOKMARK" || !matches(event.object as Watched)) continue;
      names.add(event.object.metadata.name ?? "");
      if (names.size === count) return;
    }
  } finally {
    watch.close();
  }
  throw new Error(`the watch of ${type.kind}s ended`);
}

async function inParallel(count: number, run: (index: number) => Promise<unknown>): Promise<void> {
  let next = 0;
  const work = async (): Promise<void> => {
    for (let index = next++; index < count; index = next++) await run(index);
  };
  await Promise.all(Array.from({ length: parallelRequests }, work));
}
