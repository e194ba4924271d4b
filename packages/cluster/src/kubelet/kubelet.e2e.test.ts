import { execFileSync } from "node:child_process";
import { statfsSync } from "node:fs";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { get } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type DeepReadonly, isNotFound } from "@keelson/api-machinery";
import {
  ConfigMap,
  EndpointSlice,
  EventsEvent,
  Node,
  Pod,
  type PodObject,
  type PodSpec,
  Service,
} from "@keelson/api-machinery/kinds";
import { systemClock } from "@keelson/api-machinery/time";
import { startTestEnvironment, type TestEnvironment } from "@keelson/apiserver/testing";
import { type Client, createClient } from "@keelson/client";
import { silentLogger } from "@keelson/controller";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import { startServiceProxy } from "../service-proxy/service-proxy.ts";
import { type Kubelet, startKubelet } from "./kubelet.ts";
import { podHandlers } from "./pod-handlers.ts";
import { type AddressBlock, reserveAddressBlock } from "../address-block.ts";

type PodView = DeepReadonly<PodObject>;

let environment: TestEnvironment;
let client: Client;
let dataDir: string;
let kubelet: Kubelet;
let addresses: AddressBlock;

const start = (): Promise<Kubelet> =>
  startKubelet({
    ...{ client, dataDir, nodeName: "here", podNetwork: addresses.podNetwork },
    ...{ clock: systemClock, random: Math.random, log: silentLogger },
  });

beforeAll(async () => {
  addresses = await reserveAddressBlock(import.meta.filename);
});
afterAll(() => addresses.release());
beforeEach(async () => {
  environment = await startTestEnvironment({
    subresources: podHandlers({ client: () => client, kubelet: () => kubelet, now: () => Date.now() }),
  });
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

async function createPod(name: string, spec: Partial<PodSpec> & Pick<PodSpec, "containers">): Promise<void> {
  await client.create(Pod, {
    metadata: { name, namespace: "default" },
    spec: { nodeName: "here", terminationGracePeriodSeconds: 2, automountServiceAccountToken: false, ...spec },
  });
}

/** Watches a Pod until it satisfies `isWanted`. */
async function podThat(name: string, isWanted: (pod: PodView) => boolean): Promise<PodView> {
  const watch = await client.watch(Pod, { namespace: "default", fieldSelector: `metadata.name=${name}` });
  let last: unknown;
  const timer = setTimeout(() => watch.close(), 90_000);
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
  throw new Error(`pod ${name} did not reach the expected state: ${JSON.stringify(last, undefined, 1)}`);
}

async function until(isTrue: () => Promise<boolean>): Promise<void> {
  for (let tries = 0; tries < 1_800; tries++) {
    if (await isTrue()) return;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  throw new Error("condition not met in time");
}

const isReady = (pod: PodView): boolean =>
  pod.status?.conditions?.some(({ type, status }) => type === "Ready" && status === "True") === true;
const log = async (name: string, container = "main"): Promise<string> => {
  const program = kubelet.container("default", name, container)?.program;
  return program === undefined ? "" : readFile(program.logs.stdout, "utf8");
};

test("registers a ready node with the machine's resources", async () => {
  const node = await client.get(Node, { name: "here" });
  expect(node.status?.conditions?.find(({ type }) => type === "Ready")?.status).toBe("True");
  expect(Number(node.status?.capacity?.["cpu"])).toBeGreaterThan(0);
});

test("runs a Pod to completion and reports its exit code", async () => {
  await createPod("good", {
    restartPolicy: "Never",
    containers: [{ name: "main", image: "x", command: sh("echo out; echo err >&2; exit 0") }],
  });
  const good = await podThat("good", ({ status }) => status?.phase === "Succeeded");
  expect(good.status?.containerStatuses?.[0]?.state?.terminated).toMatchObject({ exitCode: 0, reason: "Completed" });
  expect(await log("good")).toBe("out\nerr\n");
  await createPod("bad", { restartPolicy: "Never", containers: [{ name: "main", image: "x", command: sh("exit 3") }] });
  const bad = await podThat("bad", ({ status }) => status?.phase === "Failed");
  expect(bad.status?.containerStatuses?.[0]?.state?.terminated).toMatchObject({ exitCode: 3, reason: "Error" });
});

test("fails a Pod that it rejects, for the same reason after a restart", async () => {
  const securityContext = { sysctls: [{ name: "kernel.msgmax", value: "1" }] };
  await createPod("rejected", { securityContext, containers: [{ name: "main", image: "x", command: sh("echo started") }] });
  const rejected = await podThat("rejected", ({ status }) => status?.phase === "Failed");
  const failure = {
    reason: "SysctlForbidden",
    message: 'Pod was rejected: forbidden sysctl: "kernel.msgmax" not allowlisted',
  };
  expect(rejected.status).toMatchObject(failure);
  await kubelet.stop();
  kubelet = await start();
  await client.patch(
    Pod,
    { namespace: "default", name: "rejected" },
    { type: "merge", body: { metadata: { labels: { a: "b" } } } },
  );
  await createPod("later", { restartPolicy: "Never", containers: [{ name: "main", image: "x", command: sh("exit 0") }] });
  await podThat("later", ({ status }) => status?.phase === "Succeeded");
  expect((await podThat("rejected", () => true)).status).toMatchObject({ phase: "Failed", ...failure });
  expect(await log("rejected")).toBe("");
});

test("gives each Pod its own address and runs init containers one by one", async () => {
  await createPod("served", {
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
  expect(pod.status?.podIP?.startsWith(`${addresses.podNetwork}.`)).toBe(true);
  await until(async () => (await log("served")).includes("served"));
  expect(await log("served")).toBe(`one\ntwo\n${pod.status?.podIP} served\n`);
});

test("mounts volumes with medium Memory in memory, limited to their size, and unmounts them with the Pod", async () => {
  const volumeMounts = [{ name: "data", mountPath: "/data" }];
  await createPod("memory", {
    containers: [
      { name: "main", image: "x", command: sh("stat -f -c '%T %b %s' /data; stat -c %a /data; sleep 1000"), volumeMounts },
    ],
    volumes: [{ name: "data", emptyDir: { medium: "Memory", sizeLimit: "1Mi" } }],
  });
  const { metadata } = await podThat("memory", isReady);
  await until(async () => (await log("memory")).split("\n").length === 3);
  expect(await log("memory")).toBe("tmpfs 256 4096\n777\n");
  await client.delete(Pod, { namespace: "default", name: "memory" });
  await until(async () => !(await readFile("/proc/self/mountinfo", "utf8")).includes(metadata.uid ?? ""));
});

test("signals a deleted Pod and deletes the object once its program has exited", async () => {
  await createPod("polite", {
    terminationGracePeriodSeconds: 30,
    containers: [
      {
        name: "main",
        image: "x",
        command: sh("trap 'echo bye > " + "$OUT; exit 0' TERM; echo up; while :; do sleep 0.1; done"),
        env: [{ name: "OUT", value: join(dataDir, "bye") }],
      },
    ],
  });
  await podThat("polite", isReady);
  await until(async () => (await log("polite")) === "up\n");
  await client.delete(Pod, { namespace: "default", name: "polite" });
  await until(() => client.get(Pod, { namespace: "default", name: "polite" }).then(() => false, isNotFound));
  expect(await readFile(join(dataDir, "bye"), "utf8")).toBe("bye\n");
});

test("reports that a container without a command cannot run from an image alone", async () => {
  await createPod("image", { containers: [{ name: "main", image: "nginx" }] });
  const pod = await podThat(
    "image",
    ({ status }) => status?.containerStatuses?.[0]?.state?.waiting?.reason === "CreateContainerConfigError",
  );
  expect(pod.status?.containerStatuses?.[0]?.state?.waiting?.message).toContain("command");
});

test("programs continue without a kubelet, and the next kubelet re-adopts them without a restart", async () => {
  await createPod("lasting", { containers: [{ name: "main", image: "x", command: sh("echo $$; sleep 1000") }] });
  await createPod("ending", {
    restartPolicy: "Never",
    containers: [
      {
        name: "main",
        image: "x",
        command: sh("while [ ! -e $OUT ]; do sleep 0.05; done; exit 7"),
        env: [{ name: "OUT", value: join(dataDir, "go") }],
      },
    ],
  });
  const before = await podThat("lasting", isReady);
  await podThat("ending", isReady);
  await kubelet.stop();
  await writeFile(join(dataDir, "go"), "");
  kubelet = await start();
  const ended = await podThat("ending", ({ status }) => status?.phase === "Failed");
  expect(ended.status?.containerStatuses?.[0]?.state?.terminated).toMatchObject({ exitCode: 7 });
  const after = await podThat("lasting", isReady);
  expect(after.status?.podIP).toBe(before.status?.podIP);
  expect(after.status?.containerStatuses?.[0]).toMatchObject({
    restartCount: 0,
    containerID: before.status?.containerStatuses?.[0]?.containerID,
  });
});

test("a running program sees an updated ConfigMap atomically", async () => {
  await client.create(ConfigMap, { metadata: { name: "conf", namespace: "default" }, data: { a: "1", b: "1" } });
  const script = 'while :; do echo "$(cat /conf/a /conf/b)"; sleep 0.05; done';
  await createPod("reader", {
    containers: [{ name: "main", image: "x", command: sh(script), volumeMounts: [{ name: "c", mountPath: "/conf" }] }],
    volumes: [{ name: "c", configMap: { name: "conf" } }],
  });
  await podThat("reader", isReady);
  await until(async () => (await log("reader")).startsWith("1"));
  await client.patch(ConfigMap, { namespace: "default", name: "conf" }, { type: "merge", body: { data: { a: "2", b: "2" } } });
  await until(async () => (await log("reader")).includes("2\n2"));
});

test("a Pod reports a missing ConfigMap and starts when it appears", async () => {
  const env = [{ name: "A", valueFrom: { configMapKeyRef: { name: "late", key: "a" } } }];
  await createPod("waiting", { containers: [{ name: "main", image: "x", command: sh("echo $A; sleep 100"), env }] });
  const waiting = await podThat(
    "waiting",
    ({ status }) => status?.containerStatuses?.[0]?.state?.waiting?.message !== undefined,
  );
  expect(waiting.status?.containerStatuses?.[0]?.state?.waiting).toMatchObject({
    reason: "CreateContainerConfigError",
    message: 'configmap "late" not found',
  });
  await client.create(ConfigMap, { metadata: { name: "late", namespace: "default" }, data: { a: "here" } });
  await podThat("waiting", isReady);
  await until(async () => (await log("waiting")) === "here\n");
});

test("a container's mounts are invisible to the machine", async () => {
  const path = "/keelson-test-nowhere/deep";
  await createPod("private", {
    containers: [
      {
        name: "main",
        image: "x",
        command: sh(`touch ${path}/file; sleep 100`),
        volumeMounts: [{ name: "e", mountPath: path }],
      },
    ],
    volumes: [{ name: "e", emptyDir: {} }],
  });
  const pod = await podThat("private", isReady);
  const file = join(dataDir, "pods", pod.metadata.uid ?? "", "volumes", "e", "file");
  await until(() =>
    readFile(file).then(
      () => true,
      () => false,
    ),
  );
  await expect(readFile(`${path}/file`)).rejects.toThrow("ENOENT");
});

test("a failed liveness probe restarts the container and keeps its previous log", async () => {
  await createPod("ill", {
    containers: [
      {
        name: "main",
        image: "x",
        command: sh("echo run; sleep 100"),
        livenessProbe: { exec: { command: ["false"] }, initialDelaySeconds: 1, failureThreshold: 1 },
      },
    ],
  });
  const pod = await podThat("ill", ({ status }) => (status?.containerStatuses?.[0]?.restartCount ?? 0) > 0);
  expect(pod.status?.containerStatuses?.[0]?.lastState?.terminated?.exitCode).toBe(143);
  const answer = await ask("ill", { previous: "true" });
  expect(answer).toEqual({ status: 200, body: "run\n" });
});

/** Requests a log. */
async function ask(name: string, query: Record<string, string>): Promise<{ readonly status: number; readonly body: unknown }> {
  const path = `/api/v1/namespaces/default/pods/${name}/log`;
  const { status, body } = await environment.transport().request({ method: "GET", path, query });
  return { status, body };
}

test("serves logs with follow, tail and limit, and rejects invalid requests", async () => {
  await createPod("talks", {
    restartPolicy: "Never",
    containers: [{ name: "main", image: "x", command: sh("echo one; echo two; sleep 0.3; echo three") }],
  });
  await podThat("talks", ({ status }) => status?.containerStatuses?.[0]?.state?.running !== undefined);
  expect(await ask("talks", { follow: "true" })).toEqual({ status: 200, body: "one\ntwo\nthree\n" });
  expect(await ask("talks", { tailLines: "2" })).toEqual({ status: 200, body: "two\nthree\n" });
  expect(await ask("talks", { limitBytes: "5" })).toEqual({ status: 200, body: "one\nt" });
  expect((await ask("talks", { timestamps: "true", tailLines: "1" })).body).toMatch(/^\d{4}-.*Z three\n$/);
  expect((await ask("talks", { container: "other" })).status).toBe(400);
  expect((await ask("talks", { previous: "true" })).status).toBe(400);
  expect((await ask("none", {})).status).toBe(404);
});

test("stops programs whose Pod was deleted while no kubelet ran", async () => {
  await createPod("orphan", { containers: [{ name: "main", image: "x", command: sh("sleep 1000") }] });
  const pod = await podThat("orphan", isReady);
  await kubelet.stop();
  await client.delete(Pod, { namespace: "default", name: "orphan" }, { gracePeriodSeconds: 0 });
  kubelet = await start();
  const program = join(dataDir, "programs", `${pod.metadata.uid}.main.0`);
  await until(() =>
    readFile(join(program, "spec.json")).then(
      () => false,
      () => true,
    ),
  );
});

test("a Service address reaches the ready Pod, and its name resolves inside Pods", async () => {
  const proxy = await startServiceProxy({ client, clock: systemClock, random: Math.random, log: silentLogger });
  try {
    const code = "const h=require('http');h.createServer((q,s)=>s.end('it works')).listen(8080, process.env.KEELSON_POD_IP)";
    await createPod("web", {
      containers: [
        {
          name: "main",
          image: "x",
          command: [process.execPath, "-e", code],
          readinessProbe: { httpGet: { port: 8080 }, periodSeconds: 1 },
        },
      ],
    });
    const pod = await podThat("web", isReady);
    const service = await client.create(Service, {
      metadata: { name: "web", namespace: "default" },
      spec: { ports: [{ name: "http", port: 80, targetPort: 8080 }] },
    });
    await client.create(EndpointSlice, {
      metadata: { name: "web-1", namespace: "default", labels: { "kubernetes.io/service-name": "web" } },
      addressType: "IPv4",
      ports: [{ name: "http", port: 8080, protocol: "TCP" }],
      endpoints: [{ addresses: [pod.status?.podIP ?? ""], conditions: { ready: true } }],
    });
    const address = service.spec?.clusterIP ?? "";
    await until(async () => (await fetchText(`http://${address}/`)) === "it works");
    await createPod("asks", {
      restartPolicy: "Never",
      containers: [{ name: "main", image: "x", command: ["getent", "hosts", "web"] }],
    });
    await podThat("asks", ({ status }) => status?.phase === "Succeeded");
    expect(await log("asks")).toContain(address);
  } finally {
    await proxy.stop();
  }
});

function fetchText(url: string): Promise<string | undefined> {
  return new Promise((resolve) => {
    get(url, (response) => {
      let text = "";
      response.on("data", (chunk: Buffer) => (text += chunk.toString()));
      response.on("end", () => resolve(text));
    }).on("error", () => resolve(undefined));
  });
}

test.runIf(process.getuid?.() === 0)(
  "a Pod waits on a full disk with an event, and starts when space is available",
  async () => {
    const small = await mkdtemp(join(tmpdir(), "keelson-small-"));
    execFileSync("mount", ["-t", "tmpfs", "-o", "size=4m", "tmpfs", small]);
    const full = await startKubelet({
      client,
      dataDir: small,
      nodeName: "full",
      podNetwork: addresses.podNetwork,
      clock: systemClock,
      random: Math.random,
      log: silentLogger,
    });
    try {
      const filler = join(small, "filler");
      const { bavail, bsize } = statfsSync(small);
      await writeFile(filler, Buffer.alloc(bavail * bsize));
      await createPod("cramped", {
        nodeName: "full",

        containers: [{ name: "c", image: "none", command: sh("exec sleep 600") }],
      });
      await until(async () => {
        const { items } = await client.list(EventsEvent, { namespace: "default" });
        return items.some(({ type, note }) => type === "Warning" && /no space|ENOSPC|full/i.test(note ?? ""));
      });
      expect((await podThat("cramped", () => true)).status?.containerStatuses?.[0]?.state?.running).toBeUndefined();
      await rm(filler);
      await podThat("cramped", ({ status }) => status?.phase === "Running");
      await client.delete(Pod, { namespace: "default", name: "cramped" }, { gracePeriodSeconds: 1 });
      await until(async () => (await client.list(Pod)).items.length === 0);
    } finally {
      await full.stop();
      execFileSync("umount", ["--lazy", small]);
      await rm(small, { recursive: true, force: true });
    }
  },
);
