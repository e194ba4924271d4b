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

test("answers ok without checks and with ones that pass", async () => {
  expect(await ask({}, "/healthz")).toEqual({ status: 200, text: "ok" });
  await server?.stop();
  expect(await ask({ ready: { caches: () => {} } }, "/readyz?verbose")).toEqual({
    status: 200,
    text: "[+]caches ok\nreadyz check passed\n",
  });
});

test("names the check that fails and keeps the reason to itself", async () => {
  const { status, text } = await ask({ ready: { caches: () => {}, leader: bad } }, "/readyz");
  expect(status).toBe(500);
  expect(text).toBe("[+]caches ok\n[-]leader failed\nreadyz check failed\n");
});

test("runs one check by name, and leaves out what is excluded", async () => {
  expect((await ask({ ready: { a: () => {}, b: bad } }, "/readyz/a")).status).toBe(200);
  await server?.stop();
  expect((await ask({ ready: { a: () => {}, b: bad } }, "/readyz?exclude=b")).status).toBe(200);
  await server?.stop();
  expect((await ask({ ready: {} }, "/readyz/constructor")).status).toBe(404);
});

test("serves metrics, and nothing else, and takes no POST", async () => {
  const metrics = { scrape: async () => ({ contentType: "text/plain", text: "x 1\n" }) };
  expect(await ask({ metrics }, "/metrics")).toEqual({ status: 200, text: "x 1\n" });
  await server?.stop();
  expect((await ask({}, "/metrics")).status).toBe(404);
  await server?.stop();
  expect((await ask({}, "/healthz", "POST")).status).toBe(405);
});
