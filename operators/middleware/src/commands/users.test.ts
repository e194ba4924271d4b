import { PassThrough } from "node:stream";
import { ConfigMap, Secret } from "@keelson/api-machinery/kinds";
import { createVirtualClock } from "@keelson/api-machinery/testing";
import { startTestEnvironment, type TestEnvironment } from "@keelson/apiserver/testing";
import { type Client, createClient } from "@keelson/client";
import { watched } from "@keelson/client/testing";
import { silentLogger } from "@keelson/controller";
import { afterEach, beforeEach, expect, it } from "vitest";
import { App } from "../api/app.ts";
import { redisPlugin } from "../plugin/redis-plugin.ts";
import { usersCommand } from "./users.ts";

const namespace = "default";
let environment: TestEnvironment;
let client: Client;
beforeEach(async () => {
  environment = await startTestEnvironment({ crds: [App.crd] });
  client = createClient({ transport: environment.transport(), fieldManager: "test" });
  await client.create(App, {
    metadata: { name: "db", namespace },
    spec: { plugin: { name: "postgres", version: "1.0.0" }, runtime: { name: "postgres", version: "15" } },
  });
  await client.create(Secret, { metadata: { name: "db-access", namespace }, stringData: { password: "one" } });
}, 120_000);
afterEach(() => environment.stop());

it.each([
  ["rotate", []],
  ["create", ["reader"]],
])(
  "rejects %s if the plugin has no users, before anything changes",
  async (action, more) => {
    const [stdout, stderr] = [new PassThrough(), new PassThrough()];
    const { name, version, data } = redisPlugin;
    const document = (data["plugin.yaml"] ?? "")
      .replace(`  name: ${name}\n`, "  name: postgres\n")
      .replace("\nspec:\n", "\nspec:\n  users: false\n");
    const metadata = { name: `postgres-v${version}`, namespace };
    await client.create(ConfigMap, { metadata, data: { ...data, "plugin.yaml": document } });
    const code = await usersCommand.run({
      ...{ args: [action, "db", ...more], flags: { namespace, timeout: "90s", rules: "" }, stdout, stderr },
      ...{ clock: createVirtualClock(), log: silentLogger, signal: AbortSignal.timeout(100_000) },
      client: () => Promise.resolve(client),
    });
    expect(String(stderr.read())).toBe("App db: plugin postgres 1.0.0 has no users and does not rotate passwords\n");
    expect(code).toBe(1);
    const secret = await client.get(Secret, { namespace, name: "db-access" });
    expect(secret.data).not.toHaveProperty("nextPassword");
    expect((await client.get(App, { namespace, name: "db" })).spec.users).toBeUndefined();
  },
  120_000,
);

it("fails with what to do if no Pod accepts a change in time", async () => {
  const clock = createVirtualClock();
  const [stdout, stderr] = [new PassThrough(), new PassThrough()];
  const running = usersCommand.run({
    ...{ args: ["rotate", "db"], flags: { namespace, timeout: "90s" }, stdout, stderr, clock, log: silentLogger },
    ...{ signal: AbortSignal.timeout(100_000), client: () => Promise.resolve(client) },
  });
  await watched(client, Secret, "db-access", (secret) => secret?.data?.["nextPassword"] !== undefined);
  await clock.advance(90_000);
  expect(await running).toBe(1);
  expect(String(stderr.read())).toBe("the Pods of db have not accepted the change within 90 s; see kubectl describe app db\n");
}, 120_000);
