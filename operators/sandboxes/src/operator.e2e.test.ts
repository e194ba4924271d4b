import { mkdtempSync, readFileSync, realpathSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import {
  Code,
  ConnectError,
  createClient as createRpcClient,
  type Client as RpcClient,
  type Interceptor,
} from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { startTestEnvironment, type TestEnvironment } from "@keelson/apiserver/testing";
import { type Client, createClient } from "@keelson/client";
import { type RunningOperator, startOperator } from "@keelson/controller";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { Sandbox } from "./api/sandbox.ts";
import { SandboxPool } from "./api/sandbox-pool.ts";
import { fastPathTokenFile } from "./fastpath-definition.ts";
import { ConsistencyMode, FastPathService } from "./fastpath/generated/fastpath/v1/fastpath_pb.ts";
import { SandboxStreams } from "./fastpath/generated/keelson/sandboxes/v1/streams_pb.ts";
import { sandboxes } from "./operator.ts";
import { watched } from "./testing/watched.ts";

const namespace = "default";
let environment: TestEnvironment;
let client: Client;
let operator: RunningOperator;
let dataDir: string;
let fastPath: RpcClient<typeof FastPathService>;
let streams: RpcClient<typeof SandboxStreams>;

async function start(as: Client = client): Promise<void> {
  operator = await startOperator({
    operator: sandboxes,
    client: as,
    dataDir,
    flags: { "fastpath-port": "0", "fastpath-orphan-timeout": "0s" },
  });
  const token = readFileSync(fastPathTokenFile(dataDir), "utf8").trim();
  const authorize: Interceptor = (next) => (request) => {
    request.header.set("authorization", `Bearer ${token}`);
    return next(request);
  };
  const transport = createGrpcTransport({ baseUrl: operator.endpoints.fastpath ?? "", interceptors: [authorize] });
  fastPath = createRpcClient(FastPathService, transport);
  streams = createRpcClient(SandboxStreams, transport);
}

const pool = (capacity: object = { poolMin: 1, poolMax: 2 }, maxSandboxesPerPod = 2) =>
  client.create(SandboxPool, { metadata: { name: "pool", namespace }, spec: { capacity, maxSandboxesPerPod } as never });

const sandbox = (name: string, spec: Partial<Sandbox["spec"]> = {}) =>
  client.create(Sandbox, {
    metadata: { name, namespace },
    spec: { image: "host", poolRef: "pool", command: ["sleep", "600"], ...spec } as Sandbox["spec"],
  });

const phase = (name: string, wanted: string | undefined) =>
  watched(client, Sandbox, name, (each) => (wanted === undefined ? each === undefined : each?.status?.phase === wanted));

beforeEach(async () => {
  environment = await startTestEnvironment({ crds: sandboxes.resources.map((resource) => resource.crd) });
  client = createClient({ transport: environment.transport(), fieldManager: "test" });
  dataDir = realpathSync(mkdtempSync(join(tmpdir(), "sandboxes-test-")));
  await start();
});

afterEach(async () => {
  for (const each of (await client.list(Sandbox, { namespace })).items) {
    await client.delete(Sandbox, { namespace, name: each.metadata.name ?? "" });
    await phase(each.metadata.name ?? "", undefined);
  }
  await operator.stop();
  await environment.stop();
  rmSync(dataDir, { recursive: true, force: true });
});

describe("the sandboxes operator", () => {
  it("makes a pool's agents and takes a Sandbox to Succeeded, with its exit code and log", async () => {
    await pool();
    await watched(client, SandboxPool, "pool", (each) => each?.status?.readyPods === 1);
    await sandbox("hello", { command: ["sh", "-c", "echo hello $WHO; exit 0"], envs: [{ name: "WHO", value: "you" }] });
    const done = await phase("hello", "Succeeded");
    expect(done?.status).toMatchObject({ assignedPod: "pool-agent-0", exitCode: 0, sandboxID: done?.metadata.uid });
    let text = "";
    for await (const { data } of streams.logs({ sandboxName: "hello", follow: true })) text += Buffer.from(data).toString();
    expect(text).toBe("hello you\n");
  });

  it.each([
    ["FAST", ConsistencyMode.FAST],
    ["STRONG", ConsistencyMode.STRONG],
  ])("creates by gRPC with %s, and lists, gets, updates and deletes it", async (_, consistencyMode) => {
    await pool();
    await watched(client, SandboxPool, "pool", (each) => each?.status?.readyPods === 1);
    const created = await fastPath.createSandbox({
      name: "one",
      image: "host",
      poolRef: "pool",
      command: ["sleep", "600"],
      exposedPorts: [18080],
      consistencyMode,
    });
    expect(created).toMatchObject({ agentPod: "pool-agent-0", sandboxName: "one", endpoints: ["127.0.0.1:18080"] });
    const running = await phase("one", "Running");
    expect(running?.status?.sandboxID).toBe(created.sandboxId);
    expect(running?.status?.endpoints).toEqual(["127.0.0.1:18080"]);
    const { items } = await fastPath.listSandboxes({ namespace });
    expect(items.map((item) => [item.sandboxName, item.phase, item.image])).toEqual([["one", "Running", "host"]]);
    expect((await fastPath.getSandbox({ sandboxName: "one" })).sandboxId).toBe(created.sandboxId);
    const updated = await fastPath.updateSandbox({
      sandboxName: "one",
      labels: { a: "b" },
      update: { case: "recoveryTimeoutSeconds", value: 7 },
    });
    expect(updated.success).toBe(true);
    const after = await client.get(Sandbox, { namespace, name: "one" });
    expect([after.spec.recoveryTimeoutSeconds, after.metadata.labels?.a]).toEqual([7, "b"]);
    expect((await fastPath.updateSandbox({ sandboxName: "no-such", labels: { a: "b" } })).success).toBe(false);
    await expect(
      fastPath.createSandbox({ name: "one", image: "host", poolRef: "pool", consistencyMode }),
    ).rejects.toMatchObject({
      code: Code.AlreadyExists,
    });
    expect((await fastPath.deleteSandbox({ sandboxName: "one" })).success).toBe(true);
    await phase("one", undefined);
    await expect(fastPath.getSandbox({ sandboxName: "one" })).rejects.toMatchObject({ code: Code.NotFound });
  });

  it("refuses callers without the token", async () => {
    const anonymous = createRpcClient(FastPathService, createGrpcTransport({ baseUrl: operator.endpoints.fastpath ?? "" }));
    await expect(anonymous.listSandboxes({})).rejects.toSatisfy(
      (error) => ConnectError.from(error).code === Code.Unauthenticated,
    );
  });

  it("waits for a place, makes an agent for it up to poolMax, and places it when one is free", async () => {
    await pool({ poolMin: 1, poolMax: 1 }, 1);
    await sandbox("first");
    await phase("first", "Running");
    await sandbox("second");
    const waiting = await phase("second", "Pending");
    expect(waiting?.status?.message ?? "").toMatch(/no agent of pool pool has room: 1 full/);
    await client.delete(Sandbox, { namespace, name: "first" });
    await phase("second", "Running");
  });

  it("puts two sandboxes with one port on two agents (scale-out by demand)", async () => {
    await pool({ poolMin: 2, poolMax: 2 }, 2);
    await watched(client, SandboxPool, "pool", (each) => each?.status?.readyPods === 2);
    await Promise.all(["a", "b"].map((name) => sandbox(name, { exposedPorts: [18081] })));
    const [a, b] = [await phase("a", "Running"), await phase("b", "Running")];
    expect(new Set([a?.status?.assignedPod, b?.status?.assignedPod]).size).toBe(2);
  });

  it("stops a Sandbox at its expireTime and keeps the object; deleting it then is immediate", async () => {
    await pool();
    await sandbox("short", { expireTime: new Date(Date.now() + 1500).toISOString() });
    await phase("short", "Running");
    const expired = await phase("short", "Expired");
    expect(expired?.status?.assignedPod).toBeUndefined();
    expect(expired?.status?.sandboxID).toBeUndefined();
  });

  it("starts anew at a reset, with another id", async () => {
    await pool();
    await sandbox("again");
    const first = await phase("again", "Running");
    const update = { case: "resetRevision" as const, value: new Date().toISOString() };
    expect((await fastPath.updateSandbox({ sandboxName: "again", update })).success).toBe(true);
    const second = await watched(
      client,
      Sandbox,
      "again",
      (each) => each?.status?.phase === "Running" && each.status.sandboxID !== first?.status?.sandboxID,
    );
    expect(second?.status?.acceptedResetRevision).toBe(update.value);
  });

  it("fails a Sandbox whose image or program is not there, and says so", async () => {
    await pool();
    await sandbox("image", { image: "no/such:image" });
    expect((await phase("image", "Failed"))?.status?.message).toMatch(/image no\/such:image is not on this machine/);
    await sandbox("program", { command: ["no-such-program"] });
    expect((await phase("program", "Failed"))?.status?.message).toMatch(/no-such-program: not found in PATH/);
  });

  it("needs no right that its rules do not name", async () => {
    await operator.stop();
    const apiVersion = "rbac.authorization.k8s.io/v1";
    const resource = (kind: string, plural: string) =>
      ({ group: "rbac.authorization.k8s.io", version: "v1", kind, plural, scope: "Cluster" }) as const;
    const metadata = { name: "sandboxes" };
    await client.create(resource("ClusterRole", "clusterroles"), {
      apiVersion,
      kind: "ClusterRole",
      metadata,
      rules: sandboxes.rules,
    } as never);
    await client.create(resource("ClusterRoleBinding", "clusterrolebindings"), {
      apiVersion,
      kind: "ClusterRoleBinding",
      metadata,
      roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "ClusterRole", name: "sandboxes" },
      subjects: [{ apiGroup: "rbac.authorization.k8s.io", kind: "User", name: "sandboxes-operator" }],
    } as never);
    const user = { username: "sandboxes-operator", groups: ["system:authenticated"] };
    await start(createClient({ transport: environment.transport(user), fieldManager: "sandboxes" }));
    await pool();
    await watched(client, SandboxPool, "pool", (each) => each?.status?.readyPods === 1);
    const times: number[] = [];
    for (const name of ["a", "b"]) {
      const created = await fastPath.createSandbox({ name, image: "host", poolRef: "pool", command: ["sleep", "600"] });
      times.push(created.timings.total ?? Number.NaN);
    }
    await phase("a", "Running");
    await phase("b", "Running");
    expect((await fastPath.deleteSandbox({ sandboxName: "a" })).success).toBe(true);
    await phase("a", undefined);
    expect(times.every((ms) => ms < 5000)).toBe(true);
  });

  it("finds what runs when it starts again, and goes on with it", async () => {
    await pool();
    await sandbox("stays");
    const before = await phase("stays", "Running");
    await operator.stop();
    await start();
    await watched(client, SandboxPool, "pool", (each) => each?.status?.agents?.[0]?.ready === true);
    const after = await client.get(Sandbox, { namespace, name: "stays" });
    expect(after.status?.sandboxID).toBe(before?.status?.sandboxID);
    expect(after.status?.phase).toBe("Running");
  });
});
