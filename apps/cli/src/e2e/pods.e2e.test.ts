import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Container, PodObject, PodSpec } from "@keelson/api-machinery/kinds";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { stringify } from "yaml";
import { startTestKeelson, type TestKeelson } from "../testing/local-keelson.ts";
import { temporaryFolder } from "../testing/temporary-folder.ts";

const folder = temporaryFolder();
let keelson: TestKeelson;
const kubectl = (...args: string[]): Promise<string> => keelson.kubectl(...args);

beforeAll(async () => {
  keelson = await startTestKeelson(folder.path, "--only", "cluster");
});
afterEach(async () => {
  await kubectl("delete", "pod", "--all", "--timeout=40s");
});
afterAll(async () => {
  await keelson[Symbol.asyncDispose]();
  folder[Symbol.dispose]();
});

async function apply(...objects: readonly object[]): Promise<void> {
  const file = join(folder.path, "objects.yaml");
  writeFileSync(file, objects.map((each) => stringify(each)).join("---\n"));
  await kubectl("apply", "-f", file);
}

/** A container that runs a shell script. */
const sh = (name: string, script: string, more: Partial<Container> = {}): Container => ({
  name,
  image: "none",
  command: ["/bin/sh", "-c", script],
  ...more,
});
const pod = (name: string, spec: Partial<PodSpec> & Pick<PodSpec, "containers">, labels = {}): object => ({
  apiVersion: "v1",
  kind: "Pod",
  metadata: { name, labels },
  spec: { terminationGracePeriodSeconds: 2, ...spec },
});
const wait = (name: string, what: string): Promise<string> => kubectl("wait", `pod/${name}`, `--for=${what}`, "--timeout=45s");
const read = async (name: string): Promise<PodObject> =>
  JSON.parse(await kubectl("get", "pod", name, "-o", "json")) as PodObject;
const reason = (container: number, path: string): string => `jsonpath={.status.containerStatuses[${container}].state.${path}}`;
/** Grace period for programs that handle the signal; generous, because the machine may be busy. */
const patient = { terminationGracePeriodSeconds: 30 };
const forever = "while :; do sleep 0.1; done";

test("starts a native sidecar before the containers, completes without waiting for it, and stops it after them", async () => {
  const file = join(folder.path, "order");
  const note = (text: string): string => `echo ${text} >> ${file}`;
  await apply(
    pod("sidecar", {
      restartPolicy: "Never",
      ...patient,
      initContainers: [
        sh("first", note("first")),
        sh("beside", `trap '${note("beside ends")}; exit 0' TERM; ${note("beside")}; ${forever}`, { restartPolicy: "Always" }),
        sh("second", note("second")),
      ],
      // A sidecar that is stopped before its shell has set the trap ends silently.
      containers: [sh("main", `until grep -q beside ${file}; do sleep 0.1; done; ${note("main")}`)],
    }),
  );
  await wait("sidecar", "jsonpath={.status.phase}=Succeeded");
  expect(readFileSync(file, "utf8")).toMatch(
    /^first\nbeside\nsecond\nmain\nbeside ends\n$|^first\nsecond\nbeside\nmain\nbeside ends\n$/,
  );
});

test("runs postStart before ready and preStop before the signal", async () => {
  const file = join(folder.path, "hooks");
  const hook = (text: string): object => ({ exec: { command: ["/bin/sh", "-c", `echo ${text} >> ${file}`] } });
  const lifecycle = { postStart: hook("began"), preStop: hook("ends") };
  await apply(
    pod("hooked", {
      ...patient,
      containers: [sh("main", `trap 'echo signal >> ${file}; exit 0' TERM; ${forever}`, { lifecycle })],
    }),
  );
  await wait("hooked", "condition=Ready");
  expect(readFileSync(file, "utf8")).toBe("began\n");
  await kubectl("delete", "pod", "hooked", "--timeout=30s");
  expect(readFileSync(file, "utf8")).toBe("began\nends\nsignal\n");
});

test("mounts every kind of volume and subPath, and sets variables from every source", async () => {
  const host = join(folder.path, "host");
  mkdirSync(host);
  writeFileSync(join(host, "file"), "from the host\n");
  const script = [
    "cat /conf/a /secret/password /down/labels /proj/mixed /one; echo",
    "cat /host/file; echo scratch > /scratch/x; cat /scratch/x; echo claim > /claim/x; cat /claim/x",
    'test -s /proj/token && echo a token for someone; echo "$A $B $P_b $NAME $CPU $MEMORY $EXPANDED"',
    "test -s /var/run/secrets/kubernetes.io/serviceaccount/token && echo own token",
    "(echo x > /ro/file) 2>/dev/null || echo read only",
  ].join("; ");
  await apply(
    { apiVersion: "v1", kind: "ConfigMap", metadata: { name: "conf" }, data: { a: "conf-a ", b: "conf-b" } },
    { apiVersion: "v1", kind: "Secret", metadata: { name: "pass" }, stringData: { password: "hidden " } },
    {
      apiVersion: "v1",
      kind: "PersistentVolumeClaim",
      metadata: { name: "claim" },
      spec: { accessModes: ["ReadWriteOnce"], resources: { requests: { storage: "1Mi" } } },
    },
    pod(
      "volumes",
      {
        restartPolicy: "Never",
        containers: [
          sh("main", script, {
            env: [
              { name: "A", valueFrom: { configMapKeyRef: { name: "conf", key: "a" } } },
              { name: "B", valueFrom: { secretKeyRef: { name: "pass", key: "password" } } },
              { name: "NAME", valueFrom: { fieldRef: { fieldPath: "metadata.name" } } },
              { name: "CPU", valueFrom: { resourceFieldRef: { resource: "limits.cpu", divisor: "1m" } } },
              { name: "MEMORY", valueFrom: { resourceFieldRef: { resource: "requests.memory" } } },
              { name: "EXPANDED", value: "$(NAME)-$$(NAME)" },
            ],
            envFrom: [{ prefix: "P_", configMapRef: { name: "conf" } }],
            resources: { limits: { cpu: "250m", memory: "64Mi" }, requests: { memory: "32Mi" } },
            volumeMounts: [
              { name: "conf", mountPath: "/conf" },
              { name: "conf", mountPath: "/one", subPath: "b" },
              { name: "secret", mountPath: "/secret" },
              { name: "down", mountPath: "/down" },
              { name: "proj", mountPath: "/proj" },
              { name: "host", mountPath: "/host" },
              { name: "host", mountPath: "/ro", readOnly: true },
              { name: "scratch", mountPath: "/scratch" },
              { name: "claim", mountPath: "/claim" },
            ],
          }),
        ],
        volumes: [
          { name: "conf", configMap: { name: "conf" } },
          { name: "secret", secret: { secretName: "pass" } },
          { name: "down", downwardAPI: { items: [{ path: "labels", fieldRef: { fieldPath: "metadata.labels" } }] } },
          {
            name: "proj",
            projected: {
              sources: [
                { configMap: { name: "conf", items: [{ key: "a", path: "mixed" }] } },
                { serviceAccountToken: { path: "token", audience: "someone", expirationSeconds: 600 } },
              ],
            },
          },
          { name: "host", hostPath: { path: host, type: "Directory" } },
          { name: "scratch", emptyDir: {} },
          { name: "claim", persistentVolumeClaim: { claimName: "claim" } },
        ],
      } as PodSpec,
      { app: "volumes" },
    ),
  );
  await wait("volumes", "jsonpath={.status.phase}=Succeeded");
  expect((await kubectl("logs", "volumes")).split("\n")).toEqual([
    'conf-a hidden app="volumes"conf-a conf-b',
    "from the host",
    "scratch",
    "claim",
    "a token for someone",
    "conf-a  hidden  conf-b volumes 250 33554432 volumes-$(NAME)",
    "own token",
    "read only",
    "",
  ]);
  expect((await read("volumes")).status?.qosClass).toBe("Burstable");
});

test("becomes ready when HTTP and TCP probes succeed, waits for the startup probe, and restarts when a liveness exec fails", async () => {
  const file = join(folder.path, "alive");
  const server = `const {createServer}=require("node:http"); setTimeout(() => createServer((q,s)=>s.end("ok")).listen(8080,process.env.KEELSON_POD_IP), 1500)`;
  const liveness = { exec: { command: ["test", "-e", file] }, periodSeconds: 1, failureThreshold: 1 };
  writeFileSync(file, "");
  await apply(
    pod("probed", {
      containers: [
        {
          ...sh("web", ""),
          command: [process.execPath, "-e", server],
          startupProbe: { tcpSocket: { port: 8080 }, periodSeconds: 1, failureThreshold: 40 },
          livenessProbe: { httpGet: { port: 8080 }, periodSeconds: 1, failureThreshold: 20 },
          readinessProbe: { httpGet: { port: 8080, path: "/" }, periodSeconds: 1 },
        },
        sh("file", forever, { livenessProbe: liveness }),
      ],
    }),
  );
  await wait("probed", "condition=Ready");
  expect((await read("probed")).status?.containerStatuses?.map(({ restartCount }) => restartCount)).toEqual([0, 0]);
  await kubectl("exec", "probed", "-c", "file", "--", "rm", file);
  await wait("probed", "jsonpath={.status.containerStatuses[1].restartCount}=1");
  expect((await read("probed")).status?.containerStatuses?.[0]?.restartCount).toBe(0);
  expect(await kubectl("get", "events", "--field-selector=reason=Unhealthy")).toContain("Liveness probe failed");
});

test("reports CrashLoopBackOff for a failing program, and does not restart a successful one with OnFailure", async () => {
  await apply(
    pod("crashes", { containers: [sh("main", "exit 3")] }),
    pod("once", { restartPolicy: "OnFailure", containers: [sh("main", "exit 0")] }),
  );
  await wait("crashes", `${reason(0, "waiting.reason")}=CrashLoopBackOff`);
  expect(await kubectl("get", "pod", "crashes", "--no-headers")).toMatch(/^crashes +0\/1 +CrashLoopBackOff +\d/);
  expect((await read("crashes")).status?.containerStatuses?.[0]?.lastState?.terminated?.exitCode).toBe(3);
  await wait("once", "jsonpath={.status.phase}=Succeeded");
  expect((await read("once")).status?.containerStatuses?.[0]?.restartCount).toBe(0);
});

test("kills a program that ignores its signal after the grace period, and ends a Pod at its deadline", async () => {
  await apply(
    pod("stubborn", { terminationGracePeriodSeconds: 1, containers: [sh("main", `trap '' TERM; ${forever}`)] }),
    pod("late", { activeDeadlineSeconds: 1, containers: [sh("main", forever)] }),
  );
  await wait("late", "jsonpath={.status.reason}=DeadlineExceeded");
  expect((await read("late")).status?.phase).toBe("Failed");
  await wait("stubborn", "condition=Ready");
  expect(await kubectl("delete", "pod", "stubborn", "--timeout=30s")).toContain("deleted");
});

test("gives a Pod with hostNetwork the node's address", async () => {
  await apply(pod("host", { hostNetwork: true, containers: [sh("main", `echo $KEELSON_POD_IP; ${forever}`)] } as PodSpec));
  await wait("host", "condition=Ready");
  const { status } = await read("host");
  expect([status?.podIP, status?.hostIP]).toEqual(["127.0.0.1", "127.0.0.1"]);
  await expect.poll(() => kubectl("logs", "host")).toBe("127.0.0.1\n");
});

test("keeps a Pod pending that requests more than the node has, with the resource in an event", async () => {
  await apply(
    pod("huge", { containers: [sh("main", "exit 0", { resources: { requests: { cpu: "10000" } } })] }),
    pod("elsewhere", { nodeSelector: { disk: "ssd" }, containers: [sh("main", "exit 0")] }),
  );
  await wait("huge", "jsonpath={.status.conditions[0].reason}=Unschedulable");
  await wait("elsewhere", "jsonpath={.status.conditions[0].reason}=Unschedulable");
  const events = (name: string): Promise<string> =>
    kubectl("get", "events", `--field-selector=reason=FailedScheduling,involvedObject.name=${name}`, "--no-headers");
  await expect.poll(() => events("huge")).toContain("Insufficient cpu");
  await expect.poll(() => events("elsewhere")).toContain("didn't match Pod's node affinity/selector");
});

test("lets two Pods listen on the same port and reach each other through Services", async () => {
  const server = `const {createServer}=require("node:http"); createServer((q,s)=>s.end(process.env.HOSTNAME)).listen(8080,process.env.KEELSON_POD_IP)`;
  const web = (name: string): object =>
    pod(
      name,
      {
        containers: [
          {
            ...sh("main", ""),
            command: [process.execPath, "-e", server],
            ports: [{ containerPort: 8080 }],
            readinessProbe: { tcpSocket: { port: 8080 }, periodSeconds: 1 },
          },
        ],
      },
      { web: name },
    );
  const service = (name: string): object => ({
    apiVersion: "v1",
    kind: "Service",
    metadata: { name },
    spec: { selector: { web: name }, ports: [{ port: 80, targetPort: 8080 }] },
  });
  await apply(web("one"), web("two"), service("one"), service("two"));
  await wait("one", "condition=Ready");
  await wait("two", "condition=Ready");
  const fetching = `fetch("http://"+process.argv[1]).then(r=>r.text()).then(t=>console.log(t),e=>{console.error(e);process.exit(1)})`;
  const ask = (from: string, url: string): Promise<string> =>
    kubectl("exec", from, "--", process.execPath, "-e", fetching, url).catch(String);
  await expect.poll(() => ask("one", "two")).toBe("two\n");
  await expect.poll(() => ask("two", "one.default.svc.cluster.local")).toBe("one\n");
});
