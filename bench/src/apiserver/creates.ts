import { percentile } from "../figure.ts";
import { connectService, type Service } from "./raw/service.ts";
import { startWatchers } from "./raw/watchers.ts";
import type { ServerProcess } from "./servers.ts";

/** Creates by several clients for a time. */
export interface CreateRun {
  readonly perSecond: number;
  readonly p99Ms: number;
  /** Events per second that the watchers received, until they had all of them. */
  readonly eventsPerSecond: number;
  /** CPU time of the server per create, in µs. */
  readonly processorUs: number;
}

/** How creates are measured. */
export interface CreateOptions {
  /** Begins the names of the objects. */
  readonly name: string;
  readonly clients: number;
  readonly watchers: number;
  readonly durationMs: number;
}

/** Each client creates objects one after the other, while watchers in another process follow. */
export async function measureCreates(server: ServerProcess, options: CreateOptions): Promise<CreateRun> {
  const { name, watchers: count } = options;
  const clients = await Promise.all(Array.from({ length: options.clients }, () => connectService(server.service)));
  await using watchers = count === 0 ? undefined : await startWatchers(server.service, count);
  const times: number[] = [];
  const used = server.cpuMs();
  const started = performance.now();
  const end = started + options.durationMs;
  let created = 0;
  await Promise.all(
    clients.map(async (client) => {
      for (let at = performance.now(); at < end; ) {
        await client.create(`${name}-${created++}`);
        const now = performance.now();
        times.push(now - at);
        at = now;
      }
    }),
  );
  const createdMs = performance.now() - started;
  await watchers?.received(times.length * count);
  const receivedMs = performance.now() - started;
  for (const client of clients) client.close();
  return {
    perSecond: (times.length * 1000) / createdMs,
    p99Ms: percentile(times, 0.99),
    eventsPerSecond: (times.length * count * 1000) / receivedMs,
    processorUs: ((server.cpuMs() - used) * 1000) / times.length,
  };
}

/** Creates `count` objects `<name>-<index>`. */
export async function createAll(
  service: Service,
  { name, count, clients }: { readonly name: string; readonly count: number; readonly clients: number },
): Promise<void> {
  let next = 0;
  await Promise.all(
    Array.from({ length: clients }, async () => {
      const client = await connectService(service);
      while (next < count) await client.create(`${name}-${next++}`);
      client.close();
    }),
  );
}
