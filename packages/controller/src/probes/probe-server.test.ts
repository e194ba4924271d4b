import { request } from "node:http";
import { afterEach, expect, test } from "vitest";
import { createProbeServer, type ProbeServer } from "./probe-server.ts";

let server: ProbeServer | undefined;
afterEach(() => server?.stop());

async function ask(options: Parameters<typeof createProbeServer>[0], path: string, method = "GET") {
  server = createProbeServer(options);
  const response = await fetch((await server.listen(0)) + path, { method });
  return { status: response.status, text: await response.text() };
}

const bad = async (): Promise<void> => {
  throw new Error("secret reason");
};

test("responds with ok without checks and if all pass", async () => {
  expect(await ask({}, "/healthz")).toEqual({ status: 200, text: "ok" });
  await server?.stop();
  expect(await ask({ ready: { caches: () => {} } }, "/readyz?verbose")).toEqual({
    status: 200,
    text: "[+]caches ok\nreadyz check passed\n",
  });
});

test("names the failed check without the reason", async () => {
  const { status, text } = await ask({ ready: { caches: () => {}, leader: bad } }, "/readyz");
  expect(status).toBe(500);
  expect(text).toBe("[+]caches ok\n[-]leader failed\nreadyz check failed\n");
});

test("runs a single check by name, and skips excluded ones", async () => {
  expect((await ask({ ready: { a: () => {}, b: bad } }, "/readyz/a")).status).toBe(200);
  await server?.stop();
  expect((await ask({ ready: { a: () => {}, b: bad } }, "/readyz?exclude=b")).status).toBe(200);
  await server?.stop();
  expect((await ask({ ready: {} }, "/readyz/constructor")).status).toBe(404);
});

test("serves only metrics, and rejects POST", async () => {
  const metrics = { scrape: async () => ({ contentType: "text/plain", text: "x 1\n" }) };
  expect(await ask({ metrics }, "/metrics")).toEqual({ status: 200, text: "x 1\n" });
  await server?.stop();
  expect((await ask({}, "/metrics")).status).toBe(404);
  await server?.stop();
  expect((await ask({}, "/healthz", "POST")).status).toBe(405);
});

/** The status of an answer to a request that names the server as a page would: by the name in its URL. */
function askAs(host: string, url: string): Promise<number | undefined> {
  return new Promise((resolve, reject) => {
    const asking = request(url, { headers: { host } }, (response) => {
      response.resume();
      resolve(response.statusCode);
    });
    asking.on("error", reject);
    asking.end();
  });
}

test("without access control, refuses requests under a rebound host name", async () => {
  const metrics = { scrape: async () => ({ contentType: "text/plain", text: "x 1\n" }) };
  server = createProbeServer({ metrics, reconciles: { reconciles: () => [] }, hostNames: ["known.internal"] });
  const url = await server.listen(0);
  const statuses = (host: string) =>
    Promise.all(["/metrics", "/debug/reconciles", "/healthz"].map((path) => askAs(host, `${url}${path}`)));
  expect(await statuses("evil.example:8080")).toEqual([403, 403, 200]);
  expect(await statuses("localhost:8080")).toEqual([200, 200, 200]);
  expect(await statuses("known.internal")).toEqual([200, 200, 200]);
});

test("asks the access filter, and responds with an internal error if it fails", async () => {
  const metrics = { scrape: async () => ({ contentType: "text/plain", text: "x 1\n" }) };
  const seen: unknown[] = [];
  server = createProbeServer({
    metrics,
    reconciles: { reconciles: () => [] },
    async access(asked) {
      seen.push(asked);
      if (asked.token === "down") throw new Error("secret reason");
      if (asked.token === undefined) return "unauthenticated";
      return asked.path === "/metrics" ? "allowed" : "forbidden";
    },
  });
  const url = await server.listen(0);
  const ask = async (path: string, token?: string) => {
    const headers: Record<string, string> = token === undefined ? {} : { authorization: `Bearer ${token}` };
    const response = await fetch(url + path, { headers });
    return [response.status, await response.text()];
  };
  expect(await ask("/metrics?x=1", "t")).toEqual([200, "x 1\n"]);
  expect(await ask("/debug/reconciles", "t")).toEqual([403, "not allowed to get /debug/reconciles\n"]);
  expect(await ask("/metrics")).toEqual([401, "bearer token required\n"]);
  expect(await ask("/metrics", "down")).toEqual([500, "internal error\n"]);
  expect(await ask("/healthz")).toEqual([200, "ok"]);
  // The client is authenticated, so any host name is safe.
  expect(seen).toHaveLength(4);
  expect(seen[0]).toEqual({ token: "t", path: "/metrics", verb: "get" });
});

test("listens once, again after a stop, and after a failed attempt", async () => {
  server = createProbeServer({});
  const taken = Number(new URL(await server.listen(0)).port);
  await expect(server.listen(0)).rejects.toThrow("already listening");
  await using other = createProbeServer({});
  await expect(other.listen(taken)).rejects.toThrow("EADDRINUSE");
  expect((await fetch(`${await other.listen(0)}/healthz`)).status).toBe(200);
  await server.stop();
  expect((await fetch(`${await server.listen(0)}/healthz`)).status).toBe(200);
});

test("responds with 404 to an invalid path and continues", async () => {
  server = createProbeServer({});
  const url = await server.listen(0);
  const status = await new Promise((resolve, reject) => {
    request(url, { path: "//" }, (response) => resolve(response.resume().statusCode))
      .once("error", reject)
      .end();
  });
  expect(status).toBe(404);
  expect((await fetch(`${url}/healthz`)).status).toBe(200);
});
