import { mkdtemp, rm } from "node:fs/promises";
import type { IncomingMessage } from "node:http";
import { Agent, request as httpsRequest } from "node:https";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { KubeConfig } from "@kubernetes/client-node";
import { systemClock } from "@keelson/api-machinery/time";
import { expect, test } from "vitest";
import { systemRandom } from "../endpoints/random-source.ts";
import { serveApi } from "../serving/serve-api.ts";

const idleWatches = 1_000;

test("a thousand idle watches do not delay other requests, and end with the server", async () => {
  const dataDir = await mkdtemp(join(tmpdir(), "keelson-idle-"));
  const api = await serveApi({ dataDir, port: 0, clock: systemClock, random: systemRandom });
  const config = new KubeConfig();
  config.loadFromFile(api.kubeconfig);
  const { certData, keyData } = config.getCurrentUser() ?? {};
  const decode = (text = ""): Buffer => Buffer.from(text, "base64");
  const agent = new Agent({
    keepAlive: true,
    ca: decode(config.getCurrentCluster()?.caData),
    cert: decode(certData),
    key: decode(keyData),
  });
  const send = (method: string, path: string, body?: object): Promise<IncomingMessage> =>
    new Promise((resolve, reject) => {
      const headers = body === undefined ? {} : { "content-type": "application/json" };
      const request = httpsRequest(`${api.url}/api/v1/namespaces/default/${path}`, { method, agent, headers }, resolve);
      request.on("error", reject);
      request.end(body === undefined ? undefined : JSON.stringify(body));
    });
  try {
    const watches: IncomingMessage[] = [];
    while (watches.length < idleWatches) {
      watches.push(...(await Promise.all(Array.from({ length: 50 }, () => send("GET", "secrets?watch=true")))));
    }
    expect(api.server.openWatches).toBe(idleWatches);
    const ends = watches.map((watch) => new Promise<void>((resolve) => watch.on("end", resolve)));
    for (const watch of watches) watch.resume();
    const created = await send("POST", "configmaps", { apiVersion: "v1", kind: "ConfigMap", metadata: { name: "a" } });
    expect(created.statusCode).toBe(201);
    created.resume();
    await api.close();
    await Promise.all(ends);
    expect(api.server.openWatches).toBe(0);
  } finally {
    agent.destroy();
    await api.close();
    await rm(dataDir, { recursive: true, force: true });
  }
}, 180_000);
