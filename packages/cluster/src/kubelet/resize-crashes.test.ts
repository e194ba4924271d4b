import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { DeepReadonly } from "@keelson/api-machinery";
import { Pod, type PodObject } from "@keelson/api-machinery/kinds";
import { systemClock } from "@keelson/api-machinery/time";
import { startTestEnvironment, type TestEnvironment } from "@keelson/apiserver/testing";
import { type Client, createClient } from "@keelson/client";
import { silentLogger } from "@keelson/controller";
import { afterAll, beforeAll, expect, test } from "vitest";
import { CrashingMachine, createLife, type Life, transportOf } from "../testing/crashing-machine.ts";
import { startKubelet } from "./kubelet.ts";
import { PodRuntimes } from "./runtimes/pod-runtimes.ts";

const namespace = "default";
let environment: TestEnvironment;
let client: Client;

beforeAll(async () => {
  environment = await startTestEnvironment();
  client = createClient({ transport: environment.transport(), fieldManager: "test" });
});
afterAll(() => environment.stop());

type Policy = "NotRequired" | "RestartContainer";

const resources = (cpu: string) => ({ requests: { cpu: "10m", memory: "1Mi" }, limits: { cpu, memory: "64Mi" } });

function isResized({ status }: DeepReadonly<PodObject>): boolean {
  const [main] = status?.containerStatuses ?? [];
  const isOver = !(status?.conditions ?? []).some(({ type }) => type.startsWith("PodResize"));
  return isOver && main?.state?.running !== undefined && main.resources?.limits?.["cpu"] === "200m";
}

/** Resizes a Pod while it runs, with a supervisor that crashes at a point, and returns the machine once the Pod is resized. */
async function resize(name: string, restartPolicy: Policy, lastPoint?: number) {
  const dataDir = mkdtempSync(join(tmpdir(), "keelson-crash-"));
  const machine = new CrashingMachine(join(dataDir, "logs"));
  const stops: (() => Promise<void>)[] = [];
  const start = (life: Life): void => {
    const transport = transportOf(
      life,
      environment.transport(),
      ({ path, method }) => /\/pods\//.test(path) && method !== "GET",
    );
    const runtimes = new PodRuntimes(new Map([["process", { driver: machine.driver(life) }]]));
    const api = createClient({ transport, fieldManager: "kubelet" });
    const parts = { clock: systemClock, random: Math.random, log: silentLogger };
    startKubelet({ client: api, dataDir, nodeName: `node-${name}`, runtimes, ...parts }).then(
      (started) => void stops.push(() => started.stop()),
      () => {},
    );
  };
  const lives = [createLife(lastPoint), createLife()] as const;
  void lives[0].died.then(() => start(lives[1]));
  const watch = await client.watch(Pod, { namespace, fieldSelector: `metadata.name=${name}` });
  try {
    start(lives[0]);
    const resizePolicy = [{ resourceName: "cpu", restartPolicy }];
    const main = { name: "main", image: "none", command: ["run"], resources: resources("100m"), resizePolicy };
    const spec = { nodeName: `node-${name}`, terminationGracePeriodSeconds: 0, containers: [main] };
    await client.create(Pod, { metadata: { namespace, name }, spec });
    let isRequested = false;
    for await (const { type, object } of watch) {
      if (type === "BOOKMARK") continue;
      if (!isRequested && object.status?.phase === "Running") {
        isRequested = true;
        const body = { spec: { containers: [{ name: "main", resources: resources("200m") }] } };
        await client.patch(Pod, { namespace, name }, { type: "strategic", body }, { subresource: "resize" });
      }
      if (isResized(object)) break;
    }
    return { machine, points: lives[0].points };
  } finally {
    watch.close();
    for (const stop of stops) void stop();
    await client.delete(Pod, { namespace, name }, { gracePeriodSeconds: 0 });
    rmSync(dataDir, { recursive: true, force: true });
  }
}

test.each([
  ["NotRequired", ["main.0"]],
  ["RestartContainer", ["main.0", "main.1"]],
] as const)(
  "a running container is resized (%s) whenever its supervisor crashes",
  { timeout: 120_000 },
  async (policy, expected) => {
    const whole = await resize(`whole-${policy.toLowerCase()}`, policy);
    expect(whole.points).toBeGreaterThan(5);
    for (let point = 1; point <= whole.points; point++) {
      const at = `at point ${point} of ${whole.points}`;
      const { machine } = await resize(`p${point}-${policy.toLowerCase()}`, policy, point);
      expect(machine.faults, at).toEqual([]);
      const starts = machine.starts.map((id) => id.replace(/^[^.]*\./, ""));
      // A supervisor that crashes before the container runs starts it once more, or with the new resources.
      expect(starts, at).toEqual(expected);
      expect(machine.limitsOf("main", expected.length - 1)?.cpuMillis, at).toBe(200);
    }
  },
);
