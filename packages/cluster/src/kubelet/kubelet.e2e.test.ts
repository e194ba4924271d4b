import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type DeepReadonly, isNotFound, Node, Pod, type PodObject, type PodSpec, systemClock } from "@keelson/api-machinery";
import { startTestEnvironment, type TestEnvironment } from "@keelson/apiserver/testing";
import { type Client, createClient } from "@keelson/client";
import { silentLogger } from "@keelson/controller";
import { afterEach, beforeEach, expect, test } from "vitest";
import { type Kubelet, startKubelet } from "./kubelet.ts";

type PodView = DeepReadonly<PodObject>;

let environment: TestEnvironment;
let client: Client;
let dataDir: string;
let kubelet: Kubelet;

const start = (): Promise<Kubelet> =>
  startKubelet({ client, dataDir, nodeName: "here", clock: systemClock, random: Math.random, log: silentLogger });

beforeEach(async () => {
  environment = await startTestEnvironment();
  client = createClient({ transport: environment.transport(), fieldManager: "kubelet" });
  dataDir = await mkdtemp(join(tmpdir(), "keelson-kubelet-"));
  kubelet = await start();
});
afterEach(async () => {
  for (const { metadata } of (await client.list(Pod)).items) {
    await client.delete(Pod, { namespace: metadata.namespace, name: metadata.name ?? "" }, { gracePeriodSeconds: 1 });
  }
  await until(async () => (await client.list(Pod)).items.length === 0);
  await kubelet.stop();
  await environment.stop();
  await rm(dataDir, { recursive: true, force: true });
});

const sh = (script: string): string[] => ["/bin/sh", "-c", script];

async function make(name: string, spec: Partial<PodSpec> & Pick<PodSpec, "containers">): Promise<void> {
  await client.create(Pod, {
    metadata: { name, namespace: "default" },
    spec: { nodeName: "here", terminationGracePeriodSeconds: 2, automountServiceAccountToken: false, ...spec },
  });
}

/** Waits by a watch until a Pod is as wanted. */
async function podThat(name: string, isWanted: (pod: PodView) => boolean): Promise<PodView> {
  const watch = await client.watch(Pod, { namespace: "default", fieldSelector: `metadata.name=${name}` });
  let last: unknown;
  const timer = setTimeout(() => watch.close(), 20_000);
  try {
    for await (const event of watch) {
      if (event.type !== "ADDED" && event.type !== "MODIFIED") continue;
      last = event.object.status;
      if (isWanted(event.object)) return event.object;
    }
  } finally {
    clearTimeout(timer);
    watch.close();
  }
  throw new Error(`pod ${name} never was as wanted: ${JSON.stringify(last, undefined, 1)}`);
}

async function until(isTrue: () => Promise<boolean>): Promise<void> {
  for (let tries = 0; tries < 400; tries++) {
    if (await isTrue()) return;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  throw new Error("it never became so");
}

const isReady = (pod: PodView): boolean =>
  pod.status?.conditions?.some(({ type, status }) => type === "Ready" && status === "True") === true;
const log = async (name: string, container = "main"): Promise<string> => {
  const program = kubelet.container("default", name, container)?.program;
  return program === undefined ? "" : readFile(program.logs.stdout, "utf8");
};

test("registers a node that is ready and has this machine's resources", async () => {
  const node = await client.get(Node, { name: "here" });
  expect(node.status?.conditions?.find(({ type }) => type === "Ready")?.status).toBe("True");
  expect(Number(node.status?.capacity?.["cpu"])).toBeGreaterThan(0);
});

test("runs a Pod to its end and says how it ended", async () => {
  await make("good", { restartPolicy: "Never", containers: [{ name: "main", image: "x", command: sh("echo out; echo err >&2; exit 0") }] });
  const good = await podThat("good", ({ status }) => status?.phase === "Succeeded");
  expect(good.status?.containerStatuses?.[0]?.state?.terminated).toMatchObject({ exitCode: 0, reason: "Completed" });
  expect(await log("good")).toBe("out\nerr\n");
  await make("bad", { restartPolicy: "Never", containers: [{ name: "main", image: "x", command: sh("exit 3") }] });
  const bad = await podThat("bad", ({ status }) => status?.phase === "Failed");
  expect(bad.status?.containerStatuses?.[0]?.state?.terminated).toMatchObject({ exitCode: 3, reason: "Error" });
});

test("a Pod has an address of its own, and init containers run first, one by one", async () => {
  await make("served", {
    initContainers: [
      { name: "one", image: "x", command: sh("echo one > /data/log"), volumeMounts: [{ name: "data", mountPath: "/data" }] },
      { name: "two", image: "x", command: sh("echo two >> /data/log"), volumeMounts: [{ name: "data", mountPath: "/data" }] },
    ],
    containers: [
      {
        name: "main",
        image: "x",
        command: sh('cat /data/log; echo "$KEELSON_POD_IP $WHO"; sleep 1000'),
        env: [{ name: "WHO", valueFrom: { fieldRef: { fieldPath: "metadata.name" } } }],
        volumeMounts: [{ name: "data", mountPath: "/data" }],
      },
    ],
    volumes: [{ name: "data", emptyDir: {} }],
  });
  const pod = await podThat("served", isReady);
  expect(pod.status?.podIP).toMatch(/^127\.64\./);
  await until(async () => (await log("served")).includes("served"));
  expect(await log("served")).toBe(`one\ntwo\n${pod.status?.podIP} served\n`);
});

test("a deleted Pod gets its signal, and the object goes when the program has ended", async () => {
  await make("polite", {
    containers: [{ name: "main", image: "x", command: sh("trap 'echo bye > " + "$OUT; exit 0' TERM; echo up; while :; do sleep 0.1; done"), env: [{ name: "OUT", value: join(dataDir, "bye") }] }],
  });
  await podThat("polite", isReady);
  await until(async () => (await log("polite")) === "up\n");
  await client.delete(Pod, { namespace: "default", name: "polite" });
  await until(() => client.get(Pod, { namespace: "default", name: "polite" }).then(() => false, isNotFound));
  expect(await readFile(join(dataDir, "bye"), "utf8")).toBe("bye\n");
});

test("an image alone runs nothing, and the waiting reason says what to do", async () => {
  await make("image", { containers: [{ name: "main", image: "nginx" }] });
  const pod = await podThat("image", ({ status }) => status?.containerStatuses?.[0]?.state?.waiting?.reason === "CreateContainerConfigError");
  expect(pod.status?.containerStatuses?.[0]?.state?.waiting?.message).toContain("command");
});

test("programs go on while no kubelet runs, and the next one adopts them without a restart", async () => {
  await make("lasting", { containers: [{ name: "main", image: "x", command: sh("echo $$; sleep 1000") }] });
  await make("ending", { restartPolicy: "Never", containers: [{ name: "main", image: "x", command: sh("while [ ! -e $OUT ]; do sleep 0.05; done; exit 7"), env: [{ name: "OUT", value: join(dataDir, "go") }] }] });
  const before = await podThat("lasting", isReady);
  await podThat("ending", isReady);
  await kubelet.stop();
  await rm(join(dataDir, "none"), { force: true });
  const { writeFile } = await import("node:fs/promises");
  await writeFile(join(dataDir, "go"), "");
  kubelet = await start();
  const ended = await podThat("ending", ({ status }) => status?.phase === "Failed");
  expect(ended.status?.containerStatuses?.[0]?.state?.terminated).toMatchObject({ exitCode: 7 });
  const after = await podThat("lasting", isReady);
  expect(after.status?.podIP).toBe(before.status?.podIP);
  expect(after.status?.containerStatuses?.[0]).toMatchObject({ restartCount: 0, containerID: before.status?.containerStatuses?.[0]?.containerID });
});
