import { execFile } from "node:child_process";
import { mkdtempSync, readFileSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { createBusyboxImage, createProgramImage, type LocalContainerd, startLocalContainerd } from "@keelson/execution/testing";
import { afterAll, beforeAll, expect, test } from "vitest";
import { stringify } from "yaml";
import { type KeelsonProcess, startKeelson } from "../testing/keelson-process.ts";
import { startTestKeelson, type TestKeelson } from "../testing/local-keelson.ts";
import { temporaryFolder } from "../testing/temporary-folder.ts";

/*
 * The operators as on a cluster: installed from the chart's objects, each running from its image in containerd, as its own service
 * account with RBAC enforced. Workloads run in containerd, too.
 */
const root = fileURLToPath(new URL("../../../..", import.meta.url));
const { version } = JSON.parse(readFileSync(join(root, "apps/cli/package.json"), "utf8")) as { version: string };
/** Robots run outside the cluster. */
const imageNames = ["keelson", "sandbox-agent", "middleware-agent", "mpi-worker"];
const busybox = "example.org/busybox:1";
const redis = "docker.io/library/redis:7.0";
/** Pods without a runtime class, such as those of Apps, run in containerd. */
const flags = ["--only", "cluster", "--pod-runtime", "containerd"];
const run = promisify(execFile);
const folder = temporaryFolder();
// The path of a Unix socket is limited to 108 bytes.
const home = realpathSync(mkdtempSync(join(tmpdir(), "ki-")));
let containerd: LocalContainerd;
let up: TestKeelson;

const values = {
  runtimeClassName: "containerd",
  // Pods of this node share the machine's network.
  bindAddress: "$(POD_IP)",
  image: { pullPolicy: "Never" },
  middleware: { toolImage: `docker.io/keelson/middleware-agent:${version}` },
  mpi: { toolImage: `docker.io/keelson/mpi-worker:${version}` },
  // A container cannot nest bubblewrap without more permissions.
  sandboxes: { driver: "process" },
  testplane: {
    extraRules: [{ apiGroups: [""], resources: ["configmaps"], verbs: ["get", "list", "watch", "create", "patch", "delete"] }],
  },
};

async function keelson(...args: readonly string[]): Promise<string> {
  const process = startKeelson([...args], { cwd: folder.path });
  expect(await process.exited, process.output()).toBe(0);
  return process.output();
}

const onCluster = (...args: readonly string[]): Promise<string> => keelson(...args, "--kubeconfig", up.kubeconfig);

async function apply(...objects: readonly object[]): Promise<void> {
  const file = join(folder.path, "objects.yaml");
  writeFileSync(file, objects.map((object) => stringify(object)).join("---\n"));
  await up.kubectl("apply", "-f", file);
}

const reaches = (object: string, path: string, expected: string): Promise<string> =>
  up.kubectl("wait", object, `--for=jsonpath={${path}}=${expected}`, "--timeout=45s");

beforeAll(async () => {
  containerd = await startLocalContainerd(join(home, "c"));
  const images = join(home, "images");
  await run(
    process.execPath,
    [
      join(root, "scripts/image.mjs"),
      "--only",
      imageNames.join(),
      "--output",
      images,
      "--compression-level",
      "0",
      "--skip-build",
    ],
    {
      cwd: root,
    },
  );
  await createBusyboxImage(join(home, "busybox.tar"), { Env: ["PATH=/usr/bin:/bin"] });
  const at = ["--containerd-address", containerd.socket, "--data-dir", join(folder.path, "keelson")];
  for (const name of imageNames)
    await keelson("image", "import", join(images, `${name}.tar`), `docker.io/keelson/${name}:${version}`, ...at);
  await keelson("image", "import", join(home, "busybox.tar"), busybox, ...at);
  // The shell guards the program and checks snapshots.
  await createProgramImage(join(home, "redis.tar"), redis, ["/usr/bin/redis-server", "/bin/sh", "/bin/cat", "/bin/sleep"]);
  await keelson("image", "import", join(home, "redis.tar"), redis, ...at);
  up = await startTestKeelson(folder.path, ...flags, "--containerd-address", containerd.socket);
  writeFileSync(join(folder.path, "values.yaml"), stringify(values));
  const output = await onCluster("install", "--values", "values.yaml");
  expect(output).toContain("ready: robots, middleware, testplane, mpi, sandboxes in namespace keelson-system\n");
}, 600_000);

afterAll(async () => {
  await up[Symbol.asyncDispose]();
  await containerd.stop();
  rmSync(home, { recursive: true, force: true });
  folder[Symbol.dispose]();
}, 120_000);

test("every operator runs from the image as a restricted user, and one replica of each leads", async () => {
  const pods = JSON.parse(await up.kubectl("get", "pods", "-n", "keelson-system", "-o", "json")) as {
    items: { status: { containerStatuses: { image: string; ready: boolean; restartCount: number }[] } }[];
  };
  const statuses = pods.items.flatMap(({ status }) => status.containerStatuses);
  expect(statuses).toHaveLength(8);
  expect(statuses.every(({ ready, restartCount }) => ready && restartCount === 0)).toBe(true);
  expect(new Set(statuses.map(({ image }) => image)).size).toBe(1);
  const leases = await up.kubectl("get", "leases", "-n", "keelson-system", "-o", "jsonpath={.items[*].spec.holderIdentity}");
  expect(leases.split(" ").map((holder) => holder.replace(/-[a-z0-9]+-[a-z0-9]+_.*/, ""))).toEqual([
    "keelson-middleware",
    "keelson-mpi",
    "keelson-robots",
    "keelson-sandboxes",
    "keelson-testplane",
  ]);
});

test("verify finds nothing wrong with any operator", async () => {
  const output = await onCluster("verify");
  expect(output.match(/ ok$/gm)).toHaveLength(20);
});

test("runs an integration test with the permissions that the values grant", async () => {
  const output = await onCluster("testplane", "run", join(root, "examples/testplane/hello.yaml"));
  expect(output).toContain("Succeeded");
});

test("runs a job on a robot that connects through the Service of the broker", async () => {
  const token = await up.kubectl("get", "secret", "robot-join-token", "-o", "jsonpath={.data.token}");
  const file = join(folder.path, "join-token");
  writeFileSync(file, Buffer.from(token, "base64"), { mode: 0o600 });
  const address = await up.kubectl(
    "get",
    "service",
    "keelson-robots",
    "-n",
    "keelson-system",
    "-o",
    "jsonpath={.spec.clusterIP}",
  );
  await using agent: KeelsonProcess = startKeelson([
    ...["robots", "agent", "--robot-id", "robot-001", "--label", "env=demo", "--stop-tasks-on-exit"],
    ...["--broker-url", `mqtt://${address}:1883`, "--token-file", file, "--work-dir", join(folder.path, "robot")],
  ]);
  await up.kubectl("apply", "-f", join(root, "examples/robots/hello.yaml"));
  await reaches("rjob/hello", ".status.state", "completed");
  expect(agent.output()).toContain("received create of a task");
});

test("runs a sandbox on an agent of the agents' image", async () => {
  const agentTemplate = {
    spec: {
      runtimeClassName: "containerd",
      containers: [{ name: "agent", imagePullPolicy: "Never", securityContext: { runAsUser: 0 } }],
    },
  };
  const capacity = { poolMin: 1, poolMax: 1, bufferMin: 0 };
  await apply(
    {
      apiVersion: "sandbox.fast.io/v1alpha1",
      kind: "SandboxPool",
      metadata: { name: "pool" },
      spec: { capacity, maxSandboxesPerPod: 2, agentTemplate },
    },
    {
      apiVersion: "sandbox.fast.io/v1alpha1",
      kind: "Sandbox",
      metadata: { name: "box" },
      spec: { image: "host", poolRef: "pool", command: ["/bin/sh", "-c", "exit 0"] },
    },
  );
  await reaches("sandbox/box", ".status.phase", "Succeeded");
});

test("runs an App whose image has neither an agent nor Node.js, and backs it up", { timeout: 300_000 }, async () => {
  await up.kubectl("apply", "-f", join(root, "examples/middleware/redis.yaml"));
  await up.kubectl("wait", "mwapp/cache", "--for=jsonpath={.status.phase}=Running", "--timeout=240s");
  const nodes = JSON.parse(await up.kubectl("get", "pods", "-l", "middleware.io/app=cache", "-o", "json")) as {
    items: { spec: { containers: { image: string }[] } }[];
  };
  expect(nodes.items.map(({ spec }) => spec.containers[0]?.image)).toEqual(Array.from({ length: 3 }, () => redis));
  await apply({
    apiVersion: "middleware.io/v1alpha1",
    kind: "Backup",
    metadata: { name: "first" },
    spec: { app: { name: "cache" }, storage: { volume: { claimName: "backups", size: "64Mi" } } },
  });
  await up.kubectl("wait", "backup/first", "--for=jsonpath={.status.phase}=Completed", "--timeout=120s");
  await up.kubectl("delete", "backup/first", "mwapp/cache", "--timeout=120s");
});

test("runs an MPI job whose launcher and workers share neither files nor Keelson's image", async () => {
  const program = join(home, "pi");
  await run("mpicc.openmpi", ["-O2", "-o", program, join(root, "examples/mpi/pi.c")]);
  // The machine's MPI in a small image.
  const folders = Object.entries({
    usr: ["/usr", "/usr"],
    lib: ["/usr/lib", "/lib"],
    lib64: ["/usr/lib64", "/lib64"],
    alternatives: ["/etc/alternatives", "/etc/alternatives"],
    openmpi: ["/etc/openmpi", "/etc/openmpi"],
    passwd: ["/etc/passwd", "/etc/passwd"],
    program: [program, "/opt/pi"],
  });
  const template = {
    spec: {
      runtimeClassName: "containerd",
      volumes: folders.map(([name, [path]]) => ({ name, hostPath: { path } })),
      containers: [
        { name: "mpi", volumeMounts: folders.map(([name, [, mountPath]]) => ({ name, mountPath, readOnly: true })) },
      ],
    },
  };
  await apply({
    apiVersion: "openrhino.org/v1alpha2",
    kind: "RhinoJob",
    metadata: { name: "pi" },
    spec: {
      ...{ image: busybox, parallelism: 2, ttl: 600, appExec: "/opt/pi", mpiImplementation: "OpenMPI" },
      ...{ memoryAllocationMode: "FixedPerCoreMemory", memoryAllocationSize: 1 },
      ...{ launcherTemplate: template, workerTemplate: template },
    },
  });
  await reaches("rhinojob/pi", ".status.jobStatus", "Completed");
  expect(await onCluster("mpi", "logs", "pi")).toMatch(/pi is 3\.14159\d*, by 2 ranks/);
});

test("upgrades a release whose kinds had fewer fields, and removes everything", { timeout: 300_000 }, async () => {
  await up.kubectl("delete", "crd", "rhinojobs.openrhino.org");
  const old = JSON.parse(await onCluster("install", "--output", "json", "--only", "mpi")) as { items: Crd[] };
  const crd = old.items.find(({ kind }) => kind === "CustomResourceDefinition") as Crd;
  for (const version of crd.spec.versions) delete version.schema.openAPIV3Schema.properties.spec.properties.workerTemplate;
  await apply(crd);
  await reaches("crd/rhinojobs.openrhino.org", ".status.conditions[1].status", "True");
  const output = await onCluster("upgrade", "--values", "values.yaml");
  expect(output).toMatch(/^configured {2}CustomResourceDefinition rhinojobs\.openrhino\.org$/m);
  expect(await up.kubectl("explain", "rhinojob.spec.workerTemplate")).toContain("workerTemplate");
  expect(await onCluster("uninstall", "--yes")).toMatch(/^uninstalled$/m);
  expect(await up.kubectl("get", "pods,crd", "-A", "-o", "name")).toBe("");
});

interface Crd {
  readonly kind: string;
  readonly spec: {
    readonly versions: {
      readonly schema: {
        readonly openAPIV3Schema: { readonly properties: { readonly spec: { readonly properties: Record<string, unknown> } } };
      };
    }[];
  };
}
