import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { DeepReadonly } from "@keelson/api-machinery";
import { ConfigMap, Pod, type PodObject, type PodSpec } from "@keelson/api-machinery/kinds";
import { systemClock } from "@keelson/api-machinery/time";
import type { ApiRequest } from "@keelson/api-machinery/transport";
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
  await client.create(ConfigMap, { metadata: { namespace, name: "conf" }, data: { a: "1" } });
});
afterAll(() => environment.stop());

/** Requests that are crash points in addition to program starts and stops: writes to Pods and reads of the ConfigMap. */
function isCounted({ path, method }: ApiRequest): boolean {
  return (/\/pods\//.test(path) && method !== "GET") || path.endsWith("/configmaps/conf");
}

/** Runs a Pod through its life. With `Never`, `main` exits by itself; with `Always`, the Pod is deleted while it runs. */
async function live(name: string, restartPolicy: "Always" | "Never", lastPoint?: number) {
  const dataDir = mkdtempSync(join(tmpdir(), "keelson-crash-"));
  const machine = new CrashingMachine(join(dataDir, "logs"));
  const nodeName = `node-${name}`;
  // Init containers exit as soon as they run, whether or not a supervisor is alive.
  machine.onStart = (id) => void (id.includes(".first.") && machine.end("first", 0));
  const start = (life: Life): void => {
    const transport = transportOf(life, environment.transport(), isCounted);
    const runtimes = new PodRuntimes(new Map([["process", { driver: machine.driver(life) }]]));
    const kubelet = startKubelet({
      client: createClient({ transport, fieldManager: "kubelet" }),
      dataDir,
      nodeName,
      runtimes,
      clock: systemClock,
      random: Math.random,
      log: silentLogger,
    });
    kubelet.then(
      (started) => void stops.push(() => started.stop()),
      () => {},
    );
  };
  const stops: (() => Promise<void>)[] = [];
  const lives = [createLife(lastPoint), createLife()] as const;
  void lives[0].died.then(() => start(lives[1]));
  const watch = await client.watch(Pod, { namespace, fieldSelector: `metadata.name=${name}` });
  const seen: DeepReadonly<PodObject>[] = [];
  try {
    start(lives[0]);
    const containers = [{ name: "main", image: "none", command: ["run"], volumeMounts: [{ name: "v", mountPath: "/v" }] }];
    const spec: PodSpec = {
      nodeName,
      restartPolicy,
      terminationGracePeriodSeconds: 0,
      initContainers: [{ name: "first", image: "none", command: ["run"] }],
      containers,
      volumes: [{ name: "v", configMap: { name: "conf" } }],
    };
    await client.create(Pod, { metadata: { namespace, name }, spec });
    let isDeleting = false;
    const remove = async (): Promise<void> => {
      if (isDeleting) return;
      isDeleting = true;
      await client.delete(Pod, { namespace, name }, {});
    };
    for await (const { type, object } of watch) {
      if (type === "DELETED") break;
      if (type === "BOOKMARK") continue;
      seen.push(object);
      const { phase } = object.status ?? {};
      if (phase === "Running" && restartPolicy === "Always") await remove();
      else if (phase === "Running") machine.end("main", 0);
      else if (phase === "Succeeded") await remove();
    }
    const alive = lives[0].isDead ? lives[1] : lives[0];
    // The object is deleted before the Pod's files.
    await expect.poll(() => [machine.ids, readdirSync(join(dataDir, "pods"))], { timeout: 20_000 }).toEqual([[], []]);
    return { machine, seen, points: alive.points, first: lives[0].points };
  } finally {
    watch.close();
    for (const stop of stops) void stop();
    rmSync(dataDir, { recursive: true, force: true });
  }
}

const attempts = (machine: CrashingMachine): readonly string[] => machine.starts.map((id) => id.replace(/^[^.]*\./, ""));

test.each(["Never", "Always"] as const)(
  "a Pod (restartPolicy %s) starts each program once, terminates and leaves nothing behind, whenever its supervisor crashes",
  { timeout: 120_000 },
  async (restartPolicy) => {
    const whole = await live(`whole-${restartPolicy.toLowerCase()}`, restartPolicy);
    expect(attempts(whole.machine)).toEqual(["first.0", "main.0"]);
    expect(whole.points).toBeGreaterThan(10);
    for (let point = 1; point <= whole.points; point++) {
      const { machine, seen } = await live(`p${point}-${restartPolicy.toLowerCase()}`, restartPolicy, point);
      const at = `at point ${point} of ${whole.points}`;
      expect(machine.faults, at).toEqual([]);
      expect(attempts(machine), at).toEqual(["first.0", "main.0"]);
      const last = seen.filter(({ status }) => status?.phase === "Succeeded" || status?.phase === "Failed").at(-1)?.status;
      const ended = last?.containerStatuses?.[0]?.state?.terminated;
      if (restartPolicy === "Never") expect([last?.phase, ended?.exitCode], at).toEqual(["Succeeded", 0]);
      const restarts = seen.map(({ status }) => status?.containerStatuses?.[0]?.restartCount ?? 0);
      expect(Math.max(...restarts), at).toBe(0);
    }
  },
);
