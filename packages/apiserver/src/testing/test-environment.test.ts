import { isStatusError, type KubernetesObject } from "@keelson/api-machinery";
import { createVirtualClock } from "@keelson/api-machinery/testing";
import type { WatchEvent } from "@keelson/api-machinery/transport";
import { afterEach, describe, expect, it } from "vitest";
import { widgetCrd } from "../registry/testing/crd-samples.ts";
import { type EnvironmentController, startTestEnvironment, type TestEnvironment } from "./test-environment.ts";

const open: TestEnvironment[] = [];
afterEach(async () => {
  for (const environment of open.splice(0)) await environment.stop();
});

async function start(options: Parameters<typeof startTestEnvironment>[0] = {}): Promise<TestEnvironment> {
  const environment = await startTestEnvironment(options);
  open.push(environment);
  return environment;
}

const path = "/api/v1/namespaces/default/configmaps";
const configMap = (name: string): unknown => ({ apiVersion: "v1", kind: "ConfigMap", metadata: { name }, data: { a: "1" } });

async function nextExceptBookmarks(stream: AsyncIterator<WatchEvent<unknown>>): Promise<string> {
  for (;;) {
    const event = await next(stream);
    if (!event.startsWith("BOOKMARK")) return event;
  }
}

async function next(stream: AsyncIterator<WatchEvent<unknown>>): Promise<string> {
  const { value, done } = await stream.next();
  if (done) return "end";
  return `${value.type} ${(value.object as KubernetesObject).metadata?.name ?? (value.object as { code?: number }).code}`;
}

describe("the test environment", () => {
  it("is isolated from other environments", async () => {
    const [one, two] = [await start(), await start()];
    await one.transport().request({ method: "POST", path, body: configMap("c") });
    expect((await one.transport().request({ method: "GET", path: `${path}/c` })).status).toBe(200);
    expect((await two.transport().request({ method: "GET", path: `${path}/c` })).status).toBe(404);
  });

  it("starts controllers once its kinds are served and stops them in reverse order before the server", async () => {
    const log: string[] = [];
    const beside =
      (name: string): EnvironmentController =>
      async ({ transport, resources }) => {
        log.push(`${name} starts: ${resources.get("example.com", "v1", "widgets")?.kind}`);
        return {
          async stop() {
            const { status } = await transport().request({ method: "GET", path });
            log.push(`${name} ends: ${status}`);
          },
        };
      };
    const environment = await startTestEnvironment({ crds: [widgetCrd()], controllers: [beside("a"), beside("b")] });
    await environment.stop();
    expect(log).toEqual(["a starts: Widget", "b starts: Widget", "b ends: 200", "a ends: 200"]);
    const failing = (): Promise<never> => Promise.reject(new Error("no"));
    await expect(startTestEnvironment({ controllers: [beside("c"), failing] })).rejects.toThrow("no");
    expect(log.slice(4)).toEqual(["c starts: undefined", "c ends: 200"]);
  });

  it("returns the same frozen object to every reader, never the request's own", async () => {
    const { transport } = await start();
    const body = configMap("c") as { data: Record<string, string> };
    const client = transport();
    await client.request({ method: "POST", path, body });
    body.data["a"] = "2";
    const first = (await client.request({ method: "GET", path: `${path}/c` })).body as { data: object };
    const second = (await client.request({ method: "GET", path: `${path}/c` })).body;
    expect(first).toBe(second);
    expect(first).toMatchObject({ data: { a: "1" } });
    expect(Object.isFrozen(first.data)).toBe(true);
  });

  it("streams watches until they are closed, dropped or aborted", async () => {
    const { transport, faults, server } = await start();
    const client = transport();
    const signal = new AbortController();
    const watch = await client.watch({ method: "GET", path, signal: signal.signal });
    const events = watch[Symbol.asyncIterator]();
    await client.request({ method: "POST", path, body: configMap("a") });
    expect(await next(events)).toBe("ADDED a");
    await client.request({ method: "DELETE", path: `${path}/a` });
    expect(await next(events)).toBe("DELETED a");
    signal.abort();
    expect(await next(events)).toBe("end");
    expect(server.openWatches).toBe(0);

    const dropped = (await client.watch({ method: "GET", path }))[Symbol.asyncIterator]();
    faults.dropWatches();
    expect(await next(dropped)).toBe("end");
    const expired = (await client.watch({ method: "GET", path }))[Symbol.asyncIterator]();
    faults.expireWatches();
    expect(await next(expired)).toBe("ERROR 410");
    expect(await next(expired)).toBe("end");
  });

  it("ends a watch whose reader is too slow, after its buffered events", async () => {
    const { server } = await start();
    const client = server.transport({ watchBuffer: 2 });
    const events = (await client.watch({ method: "GET", path }))[Symbol.asyncIterator]();
    for (const name of ["a", "b", "c", "d"]) await client.request({ method: "POST", path, body: configMap(name) });
    expect([await next(events), await next(events), await next(events)]).toEqual(["ADDED a", "ADDED b", "end"]);
    expect(server.openWatches).toBe(0);
  });

  it("fails requests on demand, by predicate and count", async () => {
    const { transport, faults } = await start();
    const client = transport();
    faults.failNext({ reason: "TooManyRequests", retryAfterSeconds: 3, when: ({ method }) => method === "POST", times: 2 });
    expect((await client.request({ method: "GET", path })).status).toBe(200);
    const refused = await client.request({ method: "POST", path, body: configMap("c") });
    expect(refused).toMatchObject({ status: 429, body: { reason: "TooManyRequests", details: { retryAfterSeconds: 3 } } });
    expect((await client.request({ method: "POST", path, body: configMap("c") })).status).toBe(429);
    expect((await client.request({ method: "POST", path, body: configMap("c") })).status).toBe(201);
    expect(faults.injected).toBe(2);
    const undo = faults.failNext({ reason: "Gone" });
    undo();
    expect((await client.request({ method: "GET", path })).status).toBe(200);
    faults.failNext({ reason: "Expired" });
    const failure = await client.watch({ method: "GET", path }).catch((error: unknown) => error);
    expect(isStatusError(failure, "Expired")).toBe(true);
  });

  it("delays requests on the test's clock", async () => {
    const clock = createVirtualClock();
    const { transport, faults } = await start({ clock });
    faults.setLatency(1_000);
    let isDone = false;
    const request = transport()
      .request({ method: "GET", path })
      .then(() => {
        isDone = true;
      });
    await clock.advance(999);
    expect(isDone).toBe(false);
    await clock.advance(1);
    await request;
  });

  it("leaves no timer or watch behind when it stops", async () => {
    const clock = createVirtualClock();
    const environment = await startTestEnvironment({ clock });
    const watch = await environment.transport().watch({ method: "GET", path, query: { allowWatchBookmarks: "true" } });
    const ended = nextExceptBookmarks(watch[Symbol.asyncIterator]());
    await environment.stop();
    expect(await ended).toBe("end");
    expect(clock.pendingTimers).toBe(0);
  });

  it("enforces RBAC for all users but the system", async () => {
    const { transport } = await start();
    const { status, body } = await transport({ username: "eve", groups: [] }).request({ method: "GET", path });
    expect(status).toBe(403);
    expect(body).toMatchObject({ reason: "Forbidden" });
  });
});
