import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Pod, type PodSpec } from "@keelson/api-machinery/kinds";
import { systemClock } from "@keelson/api-machinery/time";
import { startTestEnvironment } from "@keelson/apiserver/testing";
import { createClient } from "@keelson/client";
import { silentLogger } from "@keelson/controller";
import type { Driver } from "@keelson/execution";
import { expect, onTestFinished, test } from "vitest";
import { CrashingMachine, createLife } from "../../testing/crashing-machine.ts";
import { startKubelet } from "../kubelet.ts";
import { PodRuntimes } from "../runtimes/pod-runtimes.ts";

const namespace = "default";

/** A node whose programs do not stop before the test ends. */
async function startStubbornNode() {
  const environment = await startTestEnvironment();
  onTestFinished(() => environment.stop());
  const client = createClient({ transport: environment.transport(), fieldManager: "test" });
  const dataDir = mkdtempSync(join(tmpdir(), "keelson-rejection-"));
  onTestFinished(() => rmSync(dataDir, { recursive: true, force: true }));
  const driver = new CrashingMachine(join(dataDir, "logs")).driver(createLife());
  let end = (): void => {};
  const ended = new Promise<void>((resolve) => (end = resolve));
  const stubborn: Driver = {
    ...driver,
    get(id) {
      const program = driver.get(id);
      if (program === undefined) return undefined;
      const kept = { stop: () => ended, signal: () => Promise.resolve() };
      return new Proxy(program, { get: (target, key) => Reflect.get(key in kept ? kept : target, key, target) as unknown });
    },
  };
  const kubelet = await startKubelet({
    client,
    dataDir,
    nodeName: "n",
    runtimes: new PodRuntimes(new Map([["process", { driver: stubborn }]])),
    clock: systemClock,
    random: Math.random,
    log: silentLogger,
  });
  onTestFinished(async () => {
    end();
    await kubelet.stop();
  });
  const create = (name: string, spec: Partial<PodSpec> = {}) => {
    const containers = [{ name, image: "none", command: ["run"], ports: [{ containerPort: 80, hostPort: 80 }] }];
    return client.create(Pod, { metadata: { namespace, name }, spec: { nodeName: "n", containers, ...spec } });
  };
  const status = async (name: string) => (await client.get(Pod, { namespace, name })).status;
  const phase = async (name: string) => (await status(name))?.phase;
  return { client, create, status, phase };
}

test("a Pod may use the host port of one whose object was removed while its program still stops", async () => {
  const { client, create, phase } = await startStubbornNode();
  await create("a");
  await expect.poll(() => phase("a")).toBe("Running");
  await create("b");
  await expect.poll(() => phase("b")).toBe("Failed");
  await client.delete(Pod, { namespace, name: "a" }, { gracePeriodSeconds: 0 });
  await create("c");
  await expect.poll(() => phase("c")).toBe("Running");
});
