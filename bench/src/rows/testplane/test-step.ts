import type { DeepReadonly } from "@keelson/api-machinery";
import { ConfigMap, type ConfigMapObject } from "@keelson/api-machinery/kinds";
import type { WatchEvent } from "@keelson/api-machinery/transport";
import { type Client, connect } from "@keelson/client";
import { IntegrationTest } from "@keelson/testplane";
import { type Benchmark, percentile } from "../../figure.ts";
import { startLocalKeelson } from "../../local-keelson.ts";

const steps = 100;
const namespace = "default";

/**
 * From the write that fulfils a step's expectation, over HTTPS, to the event of the next step's object: the test has noticed the
 * change, completed the step, started the next one and applied its object.
 */
export const testStep: Benchmark = {
  name: "test-step",
  async run() {
    const keelson = await startLocalKeelson();
    const client = await connect({ kubeconfig: keelson.kubeconfig });
    try {
      const watch = await client.watch(ConfigMap, { namespace });
      const events = watch[Symbol.asyncIterator]();
      await client.create(IntegrationTest, {
        metadata: { name: "bench", namespace },
        spec: {
          mode: "Sequential",
          steps: Array.from({ length: steps + 1 }, (_, index) => ({
            name: `s${index}`,
            resource: { manifest: { apiVersion: "v1", kind: "ConfigMap", metadata: { name: `s${index}` } } },
            expectations: { allOf: [{ function: "FieldEquals", params: { path: "data.go", value: "yes" } }] },
          })),
        },
      });
      await seen(events, "s0");
      const whole: number[] = [];
      const bare: number[] = [];
      for (let index = 0; index < steps; index++) {
        const started = performance.now();
        await client.patch(ConfigMap, { namespace, name: `s${index}` }, { type: "merge", body: { data: { go: "yes" } } });
        await seen(events, `s${index + 1}`);
        whole.push(performance.now() - started);
        bare.push(await bareWrites(client, events, index));
      }
      watch.close();
      return [0.5, 0.99].map((fraction) => ({
        name: `test step fulfilled -> next step's object created, p${fraction * 100}`,
        unit: "ms" as const,
        ours: percentile(whole, fraction),
        peer: { name: "the two writes without a test", value: percentile(bare, fraction) },
        original: { what: "polls every 5 s: mean wait", value: 2500 },
        note: `${steps} steps, sequentially`,
      }));
    } finally {
      await client.close();
      await keelson.stop();
    }
  },
};

type Events = AsyncIterator<WatchEvent<DeepReadonly<ConfigMapObject>>>;

/** Waits until an object is created. */
async function seen(events: Events, name: string): Promise<void> {
  for (;;) {
    const next = await events.next();
    if (next.done) throw new Error("the watch of ConfigMaps ended");
    const { type, object } = next.value;
    if (type === "ADDED" && object.metadata.name === name) return;
  }
}

/** The lower bound: a change of one object, and the creation of another until its event. */
async function bareWrites(client: Client, events: Events, index: number): Promise<number> {
  const name = `bare-${index}`;
  const started = performance.now();
  await client.patch(ConfigMap, { namespace, name: "s0" }, { type: "merge", body: { data: { bare: String(index) } } });
  await client.create(ConfigMap, { metadata: { name, namespace } });
  await seen(events, name);
  return performance.now() - started;
}
