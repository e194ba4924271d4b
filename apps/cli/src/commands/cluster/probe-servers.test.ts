import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Transport } from "@keelson/api-machinery/transport";
import { createClient } from "@keelson/client";
import { createPrometheusMetrics } from "@keelson/controller/metrics";
import { expect, onTestFinished, test } from "vitest";
import { isLoopback, parseBindAddress } from "./bind-address.ts";
import { type ProbesOptions, startProbes } from "./probe-servers.ts";

test.each([
  ["127.0.0.1:8080", { host: "127.0.0.1", port: 8080 }],
  ["localhost:1", { host: "127.0.0.1", port: 1 }],
  [":8080", { host: "::", port: 8080 }],
  ["[::1]:0", { host: "::1", port: 0 }],
  ["fd00::1:8080", { host: "fd00::1", port: 8080 }],
  ["0", undefined],
])("parses the address %s", (text, address) => {
  expect(parseBindAddress("--flag", text)).toEqual(address);
});

test.each(["8080", "somewhere:80", "127.0.0.1:70000", "127.0.0.1", "", "[::1", "1.2.3:1"])(
  "rejects the address %j and names the flag",
  (text) => {
    expect(() => parseBindAddress("--flag", text)).toThrow(/^--flag: .* is not a valid address/);
  },
);

test("recognizes loopback addresses", () => {
  const hosts = ["127.0.0.1", "127.1.2.3", "::1", "0.0.0.0", "::", "10.0.0.1"];
  expect(hosts.map((host) => isLoopback({ host, port: 1 }))).toEqual([true, true, true, false, false, false]);
});

const fail = (): Promise<never> => Promise.reject(new Error("unexpected request to the API server"));

async function probes(more: Partial<ProbesOptions>) {
  const metrics = await createPrometheusMetrics();
  const reconciles = { reconciles: () => [] };
  const nowhere = { metricsAddress: undefined, probeAddress: undefined, tokenFile: undefined, certificate: undefined };
  const unused = { request: fail, watch: fail, close: async () => {} };
  const client = createClient({ transport: unused, fieldManager: "test" });
  const started = await startProbes({ ...nowhere, client, metrics, reconciles, isReady: () => true, ...more });
  onTestFinished(() => started.stop());
  const urlOf = (what: string): string => started.descriptions.find((line) => line.startsWith(what))?.split("\t")[1] ?? "";
  return { ...started, urlOf };
}

test("beyond loopback, authorizes requests for metrics through the API server when there is no token", async () => {
  const paths: string[] = [];
  const transport: Transport = {
    watch: () => Promise.reject(new Error("no watch")),
    close: async () => {},
    async request({ path, body }) {
      paths.push(path);
      const { spec } = body as { spec: { token?: string; user?: string } };
      const status =
        spec.token === undefined
          ? { allowed: spec.user === "scraper" }
          : { authenticated: spec.token !== "unknown", user: { username: spec.token } };
      return { status: 201, headers: {}, body: { spec, status } };
    },
  };
  const client = createClient({ transport, fieldManager: "test" });
  const { urlOf } = await probes({ metricsAddress: { host: "0.0.0.0", port: 0 }, client });
  const ask = async (token?: string): Promise<number> => {
    const headers: Record<string, string> = token === undefined ? {} : { authorization: `Bearer ${token}` };
    return (await fetch(urlOf("metrics"), { headers })).status;
  };
  expect([await ask(), await ask("unknown"), await ask("viewer"), await ask("scraper")]).toEqual([401, 401, 403, 200]);
  expect(new Set(paths)).toEqual(
    new Set(["/apis/authentication.k8s.io/v1/tokenreviews", "/apis/authorization.k8s.io/v1/subjectaccessreviews"]),
  );
  const { urlOf: local } = await probes({ metricsAddress: { host: "127.0.0.1", port: 0 }, client });
  expect((await fetch(local("metrics"))).status).toBe(200);
});

test("beyond loopback, accepts the token of the token file", async () => {
  const metricsAddress = { host: "0.0.0.0", port: 0 };
  const folder = mkdtempSync(join(tmpdir(), "keelson-probes-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const tokenFile = join(folder, "token");
  writeFileSync(tokenFile, "\n");
  await expect(probes({ metricsAddress, tokenFile })).rejects.toThrow(/^--metrics-token-file: .* is empty/);
  writeFileSync(tokenFile, "secret\n");
  const { urlOf } = await probes({ metricsAddress, tokenFile });
  const ask = async (url: string, token?: string): Promise<number> => {
    const headers = token === undefined ? undefined : { authorization: `Bearer ${token}` };
    return (await fetch(url, headers === undefined ? {} : { headers })).status;
  };
  const url = urlOf("metrics");
  expect(await ask(url)).toBe(401);
  expect(await ask(url, "secre")).toBe(401);
  expect(await ask(url.replace("/metrics", "/debug/reconciles"))).toBe(401);
  expect(await ask(url, "secret")).toBe(200);
  expect(await ask(url.replace("/metrics", "/debug/reconciles"), "secret")).toBe(200);
});

test("readyz fails until everything has started, healthz does not, and the probe port serves no metrics", async () => {
  let isReady = false;
  const address = { host: "127.0.0.1", port: 0 };
  const { urlOf } = await probes({ probeAddress: address, isReady: () => isReady });
  const health = urlOf("probes");
  const status = async (url: string): Promise<number> => (await fetch(url)).status;
  expect(await status(health)).toBe(200);
  expect(await status(health.replace("healthz", "readyz"))).toBe(500);
  isReady = true;
  expect(await status(health.replace("healthz", "readyz"))).toBe(200);
  expect(await status(health.replace("healthz", "metrics"))).toBe(404);
});
