import { once } from "node:events";
import { existsSync, mkdtempSync, readdirSync, readFileSync, realpathSync, rmSync, watch } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { Pod } from "@keelson/api-machinery/kinds";
import type { Client } from "@keelson/client";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { ConsistencyMode, FailurePolicy } from "@keelson/sandbox/protocol";
import { connectAgent } from "./testing/connect-agent.ts";
import { Sandbox } from "./api/sandbox.ts";
import { SandboxPool } from "./api/sandbox-pool.ts";
import type { TestCluster } from "@keelson/cluster/testing";
import { startLocalCluster } from "./testing/local-cluster.ts";
import { deleteAll } from "./testing/delete-all.ts";
import { type OperatorProcess, startOperatorProcess } from "./testing/operator-process.ts";
import { watched } from "@keelson/client/testing";

const namespace = "default";
let cluster: TestCluster;
let client: Client;
let base: string;
let operator: OperatorProcess | undefined;

beforeEach(async () => {
  base = realpathSync(mkdtempSync(join(tmpdir(), "sandboxes-kill-")));
  cluster = await startLocalCluster(base);
  client = cluster.client;
});

afterEach(async () => {
  await deleteAll(client);
  await kill();
  await cluster.stop();
  rmSync(base, { recursive: true, force: true });
});

async function start(): Promise<OperatorProcess["fastPath"]> {
  operator = await startOperatorProcess(cluster.kubeconfig, join(base, "operator"));
  return operator.fastPath;
}

async function kill(): Promise<void> {
  await operator?.kill();
  operator = undefined;
}

const makePool = async (maxSandboxesPerPod = 6): Promise<void> => {
  await client.create(SandboxPool, {
    metadata: { name: "pool", namespace },
    spec: { capacity: { poolMin: 1, poolMax: 1 }, maxSandboxesPerPod } as SandboxPool["spec"],
  });
  await watched(client, SandboxPool, "pool", (each) => each?.status?.readyPods === 1);
};

/** Directory of the pool's agent, which Node and the operator know by the Pod's uid. */
async function agentFolder(): Promise<string> {
  const pod = await client.get(Pod, { namespace, name: "pool-agent-0" });
  return join(base, "operator", "agents", pod.metadata.uid ?? "");
}

/** How often the program of a sandbox was started: each start adds a line. */
const starts = (agent: string, id: string): number =>
  readFileSync(join(agent, "programs", id, "stdout.log"), "utf8")
    .trim()
    .split("\n").length;

const command = ["sh", "-c", "echo $$; exec sleep 600"];
const running = (name: string) => watched(client, Sandbox, name, (each) => each?.status?.phase === "Running");

/** Processes of this test whose command line contains a text. Other tests run the same programs at the same time. */
const processes = (text: string): readonly number[] =>
  readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .filter((name) => {
      try {
        const isOurs = readFileSync(`/proc/${name}/mountinfo`, "utf8").includes(base);
        return isOurs && readFileSync(`/proc/${name}/cmdline`, "utf8").split("\0").join(" ").includes(text);
      } catch {
        return false;
      }
    })
    .map(Number);

describe("the operator, killed", () => {
  it("after FAST creates: leaves each sandbox with one object, program and slot", async () => {
    let fastPath = await start();
    await makePool();
    const names = ["a", "b", "c", "d"];
    const asked = names.map((name) =>
      fastPath
        .createSandbox({ name, image: "host", poolRef: "pool", command })
        .then((created) => ({ name, id: created.sandboxId }))
        .catch(() => undefined),
    );
    // The first answer is out: the others are anywhere.
    await Promise.race(asked);
    await kill();
    const answered = (await Promise.all(asked)).filter((each) => each !== undefined);
    expect(answered.length).toBeGreaterThan(0);

    fastPath = await start();
    const agent = await agentFolder();
    for (const { name, id } of answered) {
      const sandbox = await running(name);
      expect(sandbox?.status?.sandboxID).toBe(id);
      expect(starts(agent, id)).toBe(1);
    }
    // Whatever was not answered is there whole or not at all, and its name can be used again.
    for (const name of names) {
      const present = await fastPath.getSandbox({ sandboxName: name }).catch(() => undefined);
      if (present === undefined) await fastPath.createSandbox({ name, image: "host", poolRef: "pool", command });
      await running(name);
    }
  });

  it("during STRONG creates: leaves one running program per object", async () => {
    const fastPath = await start();
    await makePool();
    const names = ["a", "b", "c", "d"];
    const asked = names.map((name) =>
      fastPath
        .createSandbox({ name, image: "host", poolRef: "pool", command, consistencyMode: ConsistencyMode.STRONG })
        .catch(() => undefined),
    );
    await watched(client, Sandbox, "a", (each) => each !== undefined);
    await kill();
    await Promise.all(asked);

    await start();
    const agent = await agentFolder();
    const { items } = await client.list(Sandbox, { namespace });
    expect(items.length).toBeGreaterThan(0);
    for (const { metadata } of items) {
      const sandbox = await running(metadata.name ?? "");
      expect(starts(agent, sandbox?.status?.sandboxID ?? "")).toBe(1);
    }
  });

  it("before sandboxes expire: lets the agent stop them, except renewed ones", async () => {
    const fastPath = await start();
    await makePool();
    const expiresAt = Math.ceil(Date.now() / 1000) + 15;
    const dying = ["sh", "-c", "trap 'echo ended; exit' TERM; echo ready; while :; do sleep 1 & wait $!; done"];
    const create = (name: string) =>
      fastPath.createSandbox({ name, image: "host", poolRef: "pool", command: dying, expireTimeSeconds: BigInt(expiresAt) });
    const [expiring, renewed] = await Promise.all([create("expiring"), create("renewed")]);
    await running("renewed");
    await running("expiring");
    const update = { case: "expireTimeSeconds" as const, value: BigInt(expiresAt + 3600) };
    expect(await fastPath.updateSandbox({ sandboxName: "renewed", update })).toMatchObject({ success: true });
    await agentKnows(renewed.sandboxId, (expiresAt + 3600) * 1000);
    await kill();
    const agent = await agentFolder();
    const hasEnded = (id: string): boolean => readFileSync(join(agent, "programs", id, "stdout.log"), "utf8").includes("ended");
    await expect.poll(() => hasEnded(expiring.sandboxId)).toBe(true);
    expect(Date.now()).toBeGreaterThanOrEqual(expiresAt * 1000);

    await start();
    const expired = await watched(client, Sandbox, "expiring", (each) => each?.status?.phase === "Expired");
    expect(expired?.status?.sandboxID).toBeUndefined();
    expect((await running("renewed"))?.status?.sandboxID).toBe(renewed.sandboxId);
    expect(hasEnded(renewed.sandboxId)).toBe(false);
  });

  it("together with its agent: marks sandboxes as Lost or recreates them once, as their policy says", async () => {
    const fastPath = await start();
    await makePool();
    const create = (name: string, failurePolicy: FailurePolicy) =>
      fastPath.createSandbox({ name, image: "host", poolRef: "pool", command, failurePolicy });
    const manual = await create("manual", FailurePolicy.MANUAL);
    const auto = await create("auto", FailurePolicy.AUTO_RECREATE);
    await running("manual");
    await running("auto");
    await kill();
    const killed = killAgent();
    await start();
    await expectPolicies(killed, manual.sandboxId, auto.sandboxId);
  });
});

/** Waits until the pool's agent says that a sandbox expires then. */
async function agentKnows(sandboxId: string, expiresAtMs: number): Promise<void> {
  const agent = await connectAgent(client, namespace, "pool-agent-0");
  const control = new AbortController();
  for await (const status of agent.watch(control.signal)) {
    if (status.sandboxStatuses.some((each) => each.sandboxId === sandboxId && each.expiresAtMs === expiresAtMs)) break;
  }
  control.abort();
}

const agents = (): readonly number[] =>
  processes("agent-program.js").filter((each) => readFileSync(`/proc/${each}/comm`, "utf8").startsWith("node"));

/** Kills the one agent that runs. Returns its pid and those of the programs of its sandboxes. */
function killAgent(): { readonly agent: number; readonly programs: readonly number[] } {
  const [pid = 0, ...others] = agents();
  const programs = processes("sleep 600");
  expect([pid === 0, others]).toEqual([false, []]);
  process.kill(pid, "SIGKILL");
  return { agent: pid, programs };
}

/**
 * After the death of an agent its next start finds the sandboxes that outlived it (machines without cgroups) and continues with
 * them; one that went with it goes as its policy says. Neither is there twice.
 */
async function expectPolicies(killed: ReturnType<typeof killAgent>, manualId: string, autoId: string): Promise<void> {
  const agent = await agentFolder();
  // The node starts the next agent after it has killed the cgroup of the last one.
  await expect.poll(() => agents().some((pid) => pid !== killed.agent)).toBe(true);
  await watched(client, SandboxPool, "pool", (each) => each?.status?.agents?.[0]?.ready === true);
  const outlived = killed.programs.some((pid) => existsSync(`/proc/${pid}`));
  const manual = await watched(client, Sandbox, "manual", (each) =>
    outlived ? each?.status?.phase === "Running" : /reset it to start it again/.test(each?.status?.message ?? ""),
  );
  expect(manual?.status?.sandboxID).toBe(manualId);
  if (!outlived) expect(manual?.status?.phase).toBe("Lost");
  const auto = await watched(
    client,
    Sandbox,
    "auto",
    (each) => each?.status?.phase === "Running" && (outlived || each.status.sandboxID !== autoId),
  );
  expect(starts(agent, auto?.status?.sandboxID ?? "")).toBe(1);
  const sleeping = processes("sleep 600").filter((pid) => readFileSync(`/proc/${pid}/comm`, "utf8") === "sleep\n");
  expect(sleeping).toHaveLength(outlived ? 2 : 1);
  const body = { spec: { resetRevision: new Date().toISOString() } };
  await client.patch(Sandbox, { namespace, name: "manual" }, { type: "merge", body });
  await watched(client, Sandbox, "manual", (each) => each?.status?.phase === "Running" && each.status.sandboxID !== manualId);
}

describe("an agent, killed", () => {
  it("whose Pod is deleted while no operator runs: is cleaned up by the next operator", async () => {
    const fastPath = await start();
    await makePool();
    const { sandboxId } = await fastPath.createSandbox({ name: "manual", image: "host", poolRef: "pool", command });
    await running("manual");
    const folder = await agentFolder();
    await kill();
    killAgent();
    await client.delete(Pod, { namespace, name: "pool-agent-0" }, { gracePeriodSeconds: 0 });
    await watched(client, Pod, "pool-agent-0", (each) => each === undefined);
    expect(existsSync(folder)).toBe(true);
    const gone = watchGone(folder);
    await start();
    await gone;
    expect(processes(sandboxId)).toEqual([]);
    // Gone, or, where another agent of that name came first, not there any more.
    await watched(client, Sandbox, "manual", (each) => /reset it to start it again/.test(each?.status?.message ?? ""));
  });

  it("is restarted by the node, and its sandboxes follow their failure policy", async () => {
    const fastPath = await start();
    await makePool();
    const create = (name: string, failurePolicy: FailurePolicy) =>
      fastPath.createSandbox({ name, image: "host", poolRef: "pool", command, failurePolicy });
    const manual = await create("manual", FailurePolicy.MANUAL);
    const auto = await create("auto", FailurePolicy.AUTO_RECREATE);
    await running("manual");
    await running("auto");
    await expectPolicies(killAgent(), manual.sandboxId, auto.sandboxId);
  });

  it("whose Pod is deleted: leaves no programs and no directory, and recreated sandboxes run elsewhere", async () => {
    const fastPath = await start();
    await makePool();
    await fastPath.createSandbox({
      name: "auto",
      image: "host",
      poolRef: "pool",
      command,
      failurePolicy: FailurePolicy.AUTO_RECREATE,
    });
    const before = await running("auto");
    const folder = await agentFolder();
    const gone = watchGone(folder);
    await client.delete(Pod, { namespace, name: "pool-agent-0" });
    await watched(
      client,
      Sandbox,
      "auto",
      (each) => each?.status?.phase === "Running" && each.status.sandboxID !== before?.status?.sandboxID,
    );
    await gone;
    expect(processes(before?.status?.sandboxID ?? "none")).toEqual([]);
  });
});

/** Resolves when a directory is gone. */
async function watchGone(folder: string): Promise<void> {
  using watcher = watchFolder(dirname(folder));
  while (existsSync(folder)) await watcher.changed();
}

/** Collects changes in a directory, including those before it is queried. */
function watchFolder(path: string): { changed(): Promise<void> } & Disposable {
  const watcher = watch(path);
  let next = once(watcher, "change");
  return {
    async changed() {
      await next;
      next = once(watcher, "change");
    },
    [Symbol.dispose]: () => watcher.close(),
  };
}
