import { Code, ConnectError, createClient as createRpcClient } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { Pod } from "@keelson/api-machinery/kinds";
import { watched } from "@keelson/client/testing";
import { clusterRulesOf } from "@keelson/operator";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { ConsistencyMode, FastPathService, WhenFull } from "@keelson/sandbox/protocol";
import { Sandbox } from "./api/sandbox.ts";
import { SandboxPool } from "./api/sandbox-pool.ts";
import { sandboxes } from "./operator.ts";
import { type LocalSandboxes, namespace, startLocalSandboxes } from "./testing/local-sandboxes.ts";

let local: LocalSandboxes;

beforeEach(async () => {
  local = await startLocalSandboxes();
});

afterEach(() => local.stop());

describe("the sandboxes operator", () => {
  it("creates a pool's agents and runs a Sandbox to Succeeded, with its exit code and log", async () => {
    await local.pool();
    await local.sandbox("hello", { command: ["sh", "-c", "echo hello $WHO; exit 0"], envs: [{ name: "WHO", value: "you" }] });
    const done = await local.phase("hello", "Succeeded");
    expect(done?.status).toMatchObject({ assignedPod: "pool-agent-0", exitCode: 0, sandboxID: done?.metadata.uid });
    let text = "";
    for await (const { data } of local.streams.logs({ sandboxName: "hello", follow: true }))
      text += Buffer.from(data).toString();
    expect(text).toBe("hello you\n");
  });

  it.each([
    ["FAST", ConsistencyMode.FAST],
    ["STRONG", ConsistencyMode.STRONG],
  ])("creates a sandbox over gRPC with %s, and lists, gets, updates and deletes it", async (_, consistencyMode) => {
    await local.pool();
    const created = await local.fastPath.createSandbox({
      name: "one",
      image: "host",
      poolRef: "pool",
      command: ["sleep", "600"],
      exposedPorts: [18080],
      consistencyMode,
    });
    const address = (await local.client.get(Pod, { namespace, name: "pool-agent-0" })).status?.podIP;
    expect(created).toMatchObject({ agentPod: "pool-agent-0", sandboxName: "one", endpoints: [`${address}:18080`] });
    const running = await local.phase("one", "Running");
    expect(running?.status?.sandboxID).toBe(created.sandboxId);
    expect(running?.status?.endpoints).toEqual(created.endpoints);
    const { items } = await local.fastPath.listSandboxes({ namespace });
    expect(items.map((item) => [item.sandboxName, item.phase, item.image])).toEqual([["one", "Running", "host"]]);
    expect((await local.fastPath.getSandbox({ sandboxName: "one" })).sandboxId).toBe(created.sandboxId);
    const updated = await local.fastPath.updateSandbox({
      sandboxName: "one",
      labels: { a: "b" },
      update: { case: "recoveryTimeoutSeconds", value: 7 },
    });
    expect(updated.success).toBe(true);
    const after = await local.client.get(Sandbox, { namespace, name: "one" });
    expect([after.spec.recoveryTimeoutSeconds, after.metadata.labels?.a]).toEqual([7, "b"]);
    expect((await local.fastPath.updateSandbox({ sandboxName: "no-such", labels: { a: "b" } })).success).toBe(false);
    await expect(
      local.fastPath.createSandbox({ name: "one", image: "host", poolRef: "pool", consistencyMode }),
    ).rejects.toMatchObject({
      code: Code.AlreadyExists,
    });
    expect((await local.fastPath.deleteSandbox({ sandboxName: "one" })).success).toBe(true);
    await local.phase("one", undefined);
    await expect(local.fastPath.getSandbox({ sandboxName: "one" })).rejects.toMatchObject({ code: Code.NotFound });
  });

  it.each([
    ["FAST", ConsistencyMode.FAST],
    ["STRONG", ConsistencyMode.STRONG],
  ])("returns the first answer to a repeated %s create, even after a restart, and runs it once", async (_, mode) => {
    await local.pool();
    const request = { name: "one", image: "host", poolRef: "pool", command: ["sleep", "600"], consistencyMode: mode };
    const create = (requestId: string) => local.fastPath.createSandbox({ ...request, requestId });
    const [first, second] = await Promise.all([create("r1"), create("r1")]);
    expect(second.sandboxId).toBe(first.sandboxId);
    await local.phase("one", "Running");
    expect(await create("r1")).toMatchObject({ sandboxId: first.sandboxId, agentPod: first.agentPod });
    await expect(create("r2")).rejects.toMatchObject({ code: Code.AlreadyExists });
    await expect(create("")).rejects.toMatchObject({ code: Code.AlreadyExists });
    await expect(create("\n")).rejects.toMatchObject({ code: Code.InvalidArgument });
    await local.restart();
    expect((await create("r1")).sandboxId).toBe(first.sandboxId);
    const pool = await local.client.get(SandboxPool, { namespace, name: "pool" });
    expect(pool.status?.busyAgents).toBe(1);
    const { items } = await local.client.list(Sandbox, { namespace });
    expect(items).toHaveLength(1);
  });

  it("rejects callers without the token", async () => {
    const anonymous = createRpcClient(FastPathService, createGrpcTransport({ baseUrl: local.url }));
    await expect(anonymous.listSandboxes({})).rejects.toSatisfy(
      (error) => ConnectError.from(error).code === Code.Unauthenticated,
    );
  });

  it("rejects a create with an invalid limit and names the field", async () => {
    const create = local.fastPath.createSandbox({ name: "one", image: "host", poolRef: "pool", memory: "0Mi" });
    await expect(create).rejects.toMatchObject({
      code: Code.InvalidArgument,
      rawMessage: expect.stringMatching(/^memory: "0Mi"/),
    });
  });

  it("grows beyond poolMax for a create that bursts", async () => {
    await local.pool({ poolMin: 1, poolMax: 1, burstMax: 1 }, 1);
    const create = (name: string, whenFull: WhenFull) =>
      local.fastPath.createSandbox({ name, image: "host", poolRef: "pool", command: ["sleep", "600"], whenFull });
    expect(await create("first", WhenFull.BURST)).toMatchObject({ agentPod: "pool-agent-0" });
    expect(await create("second", WhenFull.BURST)).toMatchObject({ agentPod: "pool-agent-1" });
    await local.client.delete(Sandbox, { namespace, name: "second" });
    await watched(local.client, SandboxPool, "pool", (each) => each?.status?.currentPods === 1);
  });

  it("grows if all creates reject to wait, and reports what the deletion of the pool waits for", async () => {
    await local.pool({ poolMin: 1, poolMax: 2 }, 1);
    const whenFull = WhenFull.REJECT;
    const create = (name: string) =>
      local.fastPath.createSandbox({ name, image: "host", poolRef: "pool", command: ["sleep", "600"], whenFull });
    await create("first");
    await expect(create("second")).rejects.toMatchObject({ code: Code.ResourceExhausted });
    await watched(local.client, SandboxPool, "pool", (each) => each?.status?.readyPods === 2);
    expect(await create("second")).toMatchObject({ agentPod: "pool-agent-1" });
    await local.client.delete(SandboxPool, { namespace, name: "pool" });
    await watched(local.client, SandboxPool, "pool", (each) =>
      (each?.status?.conditions ?? []).some(({ message }) => message?.includes("waits for 2 sandboxes") === true),
    );
    for (const sandboxName of ["first", "second"]) await local.fastPath.deleteSandbox({ sandboxName });
    await watched(local.client, SandboxPool, "pool", (each) => each === undefined);
  });

  it("reuses the slot of a terminated sandbox and keeps its log", async () => {
    await local.pool({ poolMin: 1, poolMax: 1 }, 1);
    // One that its agent cannot start holds no slot either.
    await local.sandbox("broken", { image: "none" });
    await local.phase("broken", "Failed");
    for (const name of ["first", "second"]) {
      await local.sandbox(name, { command: ["echo", name] });
      await local.phase(name, "Succeeded");
    }
    await local.sandbox("third");
    await local.phase("third", "Running");
    let text = "";
    for await (const { data } of local.streams.logs({ sandboxName: "first" })) text += Buffer.from(data).toString();
    expect(text).toBe("first\n");
  });

  it("stops a Sandbox at its expireTime and keeps the object", async () => {
    await local.pool();
    await local.sandbox("short");
    await local.phase("short", "Running");
    const update = { case: "expireTimeSeconds" as const, value: BigInt(Math.ceil(Date.now() / 1000) + 1) };
    expect((await local.fastPath.updateSandbox({ sandboxName: "short", update })).success).toBe(true);
    const expired = await local.phase("short", "Expired");
    expect(expired?.status?.assignedPod).toBeUndefined();
    expect(expired?.status?.sandboxID).toBeUndefined();
  });

  it("restarts at a reset, with another id", async () => {
    await local.pool();
    await local.sandbox("again");
    const first = await local.phase("again", "Running");
    const update = { case: "resetRevision" as const, value: new Date().toISOString() };
    expect((await local.fastPath.updateSandbox({ sandboxName: "again", update })).success).toBe(true);
    const second = await watched(
      local.client,
      Sandbox,
      "again",
      (each) => each?.status?.phase === "Running" && each.status.sandboxID !== first?.status?.sandboxID,
    );
    expect(second?.status?.acceptedResetRevision).toBe(update.value);
  });

  it("needs no permission beyond its rules", async () => {
    const apiVersion = "rbac.authorization.k8s.io/v1";
    const resource = (kind: string, plural: string) =>
      ({ group: "rbac.authorization.k8s.io", version: "v1", kind, plural, scope: "Cluster" }) as const;
    const metadata = { name: "sandboxes" };
    await local.client.create(resource("ClusterRole", "clusterroles"), {
      apiVersion,
      kind: "ClusterRole",
      metadata,
      rules: clusterRulesOf(sandboxes),
    } as never);
    await local.client.create(resource("ClusterRoleBinding", "clusterrolebindings"), {
      apiVersion,
      kind: "ClusterRoleBinding",
      metadata,
      roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "ClusterRole", name: "sandboxes" },
      subjects: [{ apiGroup: "rbac.authorization.k8s.io", kind: "User", name: "sandboxes-operator" }],
    } as never);
    const user = { username: "sandboxes-operator", groups: ["system:authenticated"] };
    await local.restart(local.cluster.as(user));
    await local.pool();
    const times: number[] = [];
    for (const name of ["a", "b"]) {
      const created = await local.fastPath.createSandbox({ name, image: "host", poolRef: "pool", command: ["sleep", "600"] });
      times.push(created.timings.total ?? Number.NaN);
    }
    await local.phase("a", "Running");
    await local.phase("b", "Running");
    expect((await local.fastPath.deleteSandbox({ sandboxName: "a" })).success).toBe(true);
    await local.phase("a", undefined);
    expect(times.every((ms) => ms < 5000)).toBe(true);
  });

  it("adopts running sandboxes after a restart", async () => {
    await local.pool();
    await local.sandbox("stays");
    const before = await local.phase("stays", "Running");
    await local.restart();
    await watched(local.client, SandboxPool, "pool", (each) => each?.status?.agents?.[0]?.ready === true);
    const after = await local.client.get(Sandbox, { namespace, name: "stays" });
    expect(after.status?.sandboxID).toBe(before?.status?.sandboxID);
    expect(after.status?.phase).toBe("Running");
  });
});
