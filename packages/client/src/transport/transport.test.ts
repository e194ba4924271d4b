import { statusError } from "@keelson/api-machinery";
import type { Transport, WatchEvent } from "@keelson/api-machinery/transport";
import { afterEach, describe, expect, test } from "vitest";
import { createHttpTransport } from "./http-transport.ts";
import { eventSource, type Script, scriptedTransport, serveScript } from "../testing/scripted-server.ts";
import { isTransportError } from "./transport-error.ts";

const cleanUps: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const cleanUp of cleanUps.splice(0).reverse()) await cleanUp();
});

const kinds: Record<string, (script: Script) => Promise<Transport>> = {
  http: async (script) => {
    const server = await serveScript(script);
    const transport = createHttpTransport({ server: server.url });
    cleanUps.push(
      () => server.stop(),
      () => transport.close(),
    );
    return transport;
  },
  "in process": async (script) => {
    const transport = scriptedTransport(script);
    cleanUps.push(() => transport.close());
    return transport;
  },
};

const event = (name: string): WatchEvent<unknown> => ({ type: "ADDED", object: { metadata: { name } } });

describe.each(Object.entries(kinds))("transport over %s", (_, make) => {
  test("passes on method, path, query, body and any status code", async () => {
    const transport = await make((request) => ({
      status: 418,
      body: { got: [request.method, request.path, request.query, request.body] },
    }));
    const answer = await transport.request({
      method: "PATCH",
      path: "/apis/a/v1/bs/c",
      query: { labelSelector: "a in (b,c),d!=é", limit: undefined },
      body: { n: "ü" },
    });
    expect(answer.status).toBe(418);
    expect(answer.body).toEqual({ got: ["PATCH", "/apis/a/v1/bs/c", { labelSelector: "a in (b,c),d!=é" }, { n: "ü" }] });
  });

  test("delivers events as they arrive and ends when the server ends", async () => {
    const source = eventSource();
    const transport = await make(() => ({ events: source.events, ending: "clean" }));
    const watch = await transport.watch({ method: "GET", path: "/w" });
    const iterator = watch[Symbol.asyncIterator]();
    source.send(event("å"));
    expect((await iterator.next()).value).toEqual(event("å"));
    source.send(event("b"));
    source.end();
    expect((await iterator.next()).value).toEqual(event("b"));
    expect((await iterator.next()).done).toBe(true);
  });

  test("throws the Status of a rejected watch", async () => {
    const refusal = statusError("Expired", "too old").status;
    const transport = await make(() => ({ status: 410, body: refusal }));
    await expect(transport.watch({ method: "GET", path: "/w" })).rejects.toMatchObject({ reason: "Expired", code: 410 });
  });

  test("throws if a watch loses its connection", async () => {
    const source = eventSource();
    const transport = await make(() => ({ events: source.events, ending: "broken" }));
    const watch = await transport.watch({ method: "GET", path: "/w" });
    const iterator = watch[Symbol.asyncIterator]();
    source.send(event("a"));
    await iterator.next();
    source.end();
    await expect(iterator.next()).rejects.toSatisfy((error) => isTransportError(error, "ConnectionLost"));
  });

  test.each(["close", "abort"])("ends a waiting watch without error on %s", async (how) => {
    const transport = await make(() => ({ events: eventSource().events, ending: "clean" }));
    const controller = new AbortController();
    const watch = await transport.watch({ method: "GET", path: "/w", signal: controller.signal });
    const next = watch[Symbol.asyncIterator]().next();
    if (how === "close") watch.close();
    else controller.abort(new Error("enough"));
    expect((await next).done).toBe(true);
  });

  test("rejects a request with the signal's reason", async () => {
    const controller = new AbortController();
    const reason = new Error("enough");
    const transport = await make(() => {
      controller.abort(reason);
      return new Promise(() => {});
    });
    await expect(transport.request({ method: "GET", path: "/r", signal: controller.signal })).rejects.toBe(reason);
  });

  test("ends requests and watches on close, and rejects new ones", async () => {
    let asked = (): void => {};
    const isAsked = new Promise<void>((resolve) => (asked = resolve));
    const transport = await make((request) => {
      if (request.path === "/w") return { events: eventSource().events, ending: "clean" };
      asked();
      return new Promise(() => {});
    });
    const watch = await transport.watch({ method: "GET", path: "/w" });
    const next = watch[Symbol.asyncIterator]().next();
    const request = transport.request({ method: "GET", path: "/r" });
    const refused = request;
    refused.catch(() => {});
    await isAsked;
    await transport.close();
    await expect(refused).rejects.toSatisfy((error) => isTransportError(error, "Closed"));
    expect((await next).done).toBe(true);
    await expect(transport.request({ method: "GET", path: "/r" })).rejects.toSatisfy((error) =>
      isTransportError(error, "Closed"),
    );
  });
});
