import { ConfigMap, Namespace, Service } from "@keelson/api-machinery/kinds";
import type { Transport } from "@keelson/api-machinery/transport";
import { startTestEnvironment } from "@keelson/apiserver/testing";
import { createClient } from "@keelson/client";
import { createManager, defineController, type ReconcileContext, type Request } from "@keelson/controller";
import { createPrometheusMetrics } from "@keelson/controller/metrics";
import type { Benchmark, Figure } from "../../figure.ts";

const namespace = "bench";
const workers = 32;

/**
 * Complete controllers with metrics and trace, as in production: no-op reconciles, and reconciles that write the status of their object
 * to an in-memory API server in the same process.
 */
export const runtimeReconciles: Benchmark = {
  name: "runtime-reconciles",
  async run() {
    await using environment = await startTestEnvironment();
    const transport = environment.transport();
    const client = createClient({ transport, fieldManager: "bench" });
    await client.create(Namespace, { metadata: { name: namespace } });
    return [await idleReconciles(transport), ...(await writingReconciles(transport))];
  },
};

async function idleReconciles(transport: Transport): Promise<Figure> {
  const backlog = 300_000;
  let left = backlog;
  const ours = await measure(transport, backlog, async ({ name }, { cache }, finished) => {
    cache.get(ConfigMap, { namespace, name });
    if (--left === 0) finished();
  });
  return {
    name: "no-op reconciles",
    unit: "1/s",
    ours,
    note: `${backlog} requests, ${workers} workers, metrics and trace on`,
  };
}

async function writingReconciles(transport: Transport): Promise<Figure[]> {
  const objects = 5_000;
  const client = createClient({ transport, fieldManager: "bench" });
  for (let index = 0; index < objects; index++) {
    await client.create(Service, { metadata: { namespace, name: `s-${index}` }, spec: { ports: [{ port: 80 }] } });
  }
  const status = { loadBalancer: { ingress: [{ ip: "192.0.2.1" }] } };
  const patched = { loadBalancer: { ingress: [{ ip: "192.0.2.2" }] } };
  const figure = async (how: string, write: (context: ReconcileContext, key: Request) => Promise<unknown>): Promise<Figure> => {
    let left = objects;
    const ours = await measure(transport, objects, async ({ name }, context, finished) => {
      await write(context, { namespace, name });
      if (--left === 0) finished();
    });
    const note = `${objects} objects, ${workers} workers, in-process server`;
    return { name: `reconciles with one status write, by ${how}`, unit: "1/s", ours, note };
  };
  return [
    await figure("apply", (context, metadata) => context.client.applyStatus(Service, { metadata, status })),
    await figure("merge patch", (context, key) =>
      context.client.patch(Service, key, { type: "merge", body: { status: patched } }, { subresource: "status" }),
    ),
  ];
}

/** Requests per second from when all are queued to the call of `finished`. */
async function measure(
  transport: Transport,
  requests: number,
  reconcile: (request: Request, context: ReconcileContext, finished: () => void) => Promise<void>,
): Promise<number> {
  const client = createClient({ transport, fieldManager: "bench" });
  let startedAt = 0;
  let finished: (perSecond: number) => void = () => {};
  const measured = new Promise<number>((resolve) => {
    finished = resolve;
  });
  const end = (): void => finished((requests / (performance.now() - startedAt)) * 1000);
  const controller = defineController({
    name: "bench",
    for: ConfigMap,
    maxConcurrentReconciles: workers,
    triggers: [
      {
        start({ enqueue }) {
          for (let index = 0; index < requests; index++) enqueue({ namespace, name: `s-${index}` });
          startedAt = performance.now();
          return () => {};
        },
      },
    ],
    reconcile: (request, context) => reconcile(request, context, end),
  });
  await using manager = createManager({
    client,
    name: "bench",
    controllers: [controller],
    metrics: await createPrometheusMetrics(),
  });
  await manager.start();
  return await measured;
}
