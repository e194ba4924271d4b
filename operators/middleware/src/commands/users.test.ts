import { PassThrough } from "node:stream";
import { Secret } from "@keelson/api-machinery/kinds";
import { createVirtualClock } from "@keelson/api-machinery/testing";
import { startTestEnvironment, type TestEnvironment } from "@keelson/apiserver/testing";
import { type Client, createClient } from "@keelson/client";
import { watched } from "@keelson/client/testing";
import { silentLogger } from "@keelson/controller";
import { afterEach, beforeEach, expect, it } from "vitest";
import { App } from "../api/app.ts";
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
