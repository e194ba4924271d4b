import { defineResource, isBeingDeleted, type ObjectType } from "@keelson/api-machinery";
import { formatTime } from "@keelson/api-machinery/time";
import { type ControllerDefinition, defineController, generationChanged } from "@keelson/controller";
import { Type } from "typebox";

/** A URL that is checked periodically. */
export const HttpCheck = defineResource({
  group: "example.com",
  version: "v1",
  kind: "HttpCheck",
  plural: "httpchecks",
  scope: "Namespaced",
  description: "A URL that is checked periodically.",
  spec: Type.Object({
    url: Type.String({ format: "uri" }),
    intervalSeconds: Type.Integer({ minimum: 1, default: 60 }),
  }),
  status: Type.Object({
    healthy: Type.Boolean(),
    lastCheckTime: Type.String({ format: "date-time" }),
    message: Type.String(),
  }),
});
export type HttpCheck = ObjectType<typeof HttpCheck>;

/** Requests a URL and returns the status code. */
export type Probe = (url: string, signal: AbortSignal) => Promise<number>;

/**
 * Checks URLs at their interval. The time of the next check follows from the status, so a restarted controller neither skips nor
 * repeats one. The predicate ignores the status updates of the controller itself.
 */
export function createHttpCheckController(probe: Probe): ControllerDefinition {
  return defineController({
    name: "http-check",
    for: HttpCheck,
    predicates: [generationChanged],
    maxConcurrentReconciles: 10,
    reconcileTimeoutMs: 10_000,
    async reconcile(request, { cache, client, clock, events, signal }) {
      const check = cache.get(HttpCheck, request);
      if (check === undefined || isBeingDeleted(check)) return undefined;
      const intervalMs = check.spec.intervalSeconds * 1000;
      const dueInMs = Date.parse(check.status?.lastCheckTime ?? "1970-01-01T00:00:00Z") + intervalMs - clock.now();
      if (dueInMs > 0) return { requeueAfterMs: dueInMs };
      const { healthy, message } = await run(probe, check.spec.url, signal);
      const status = { healthy, message, lastCheckTime: formatTime(clock.now()) };
      await client.applyStatus(HttpCheck, { metadata: request, status }, { signal });
      if (check.status?.healthy !== healthy) {
        events.event(check, { type: healthy ? "Normal" : "Warning", reason: healthy ? "Healthy" : "Unhealthy", note: message });
      }
      return { requeueAfterMs: intervalMs };
    },
  });
}

async function run(
  probe: Probe,
  url: string,
  signal: AbortSignal,
): Promise<{ readonly healthy: boolean; readonly message: string }> {
  try {
    const code = await probe(url, signal);
    return { healthy: code < 400, message: `status ${code}` };
  } catch (error) {
    return { healthy: false, message: error instanceof Error ? error.message : String(error) };
  }
}
