import { mkdtempSync, readdirSync, readFileSync, realpathSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Code, ConnectError } from "@connectrpc/connect";
import { Pod } from "@keelson/api-machinery/kinds";
import { sleep, systemClock } from "@keelson/api-machinery/time";
import { watched } from "@keelson/client/testing";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { ConsistencyMode, type CreateResponse } from "@keelson/sandbox/protocol";
import { Sandbox } from "./api/sandbox.ts";
import { SandboxPool } from "./api/sandbox-pool.ts";
import { deleteAll } from "./testing/delete-all.ts";
import type { TestCluster } from "@keelson/cluster/testing";
import { startLocalCluster } from "./testing/local-cluster.ts";
import { type DeathStage, type OperatorProcess, startOperatorProcess } from "./testing/operator-process.ts";

const namespace = "default";
let base: string;
let cluster: TestCluster;
/** The operators of the current test. */
const operators: OperatorProcess[] = [];

async function start(dieAt?: DeathStage): Promise<OperatorProcess> {
  const operator = await startOperatorProcess(cluster.kubeconfig, join(base, "operator"), dieAt);
  operators.push(operator);
  return operator;
}

async function killOperators(): Promise<void> {
  for (const operator of operators.splice(0)) await operator.kill();
}

const isIdle = ({ status }: SandboxPool): boolean => status?.readyPods === 1 && (status.busyAgents ?? 0) === 0;

// The pool and its agent, which outlives the operator, serve all tests.
beforeAll(async () => {
  base = realpathSync(mkdtempSync(join(tmpdir(), "sandboxes-crash-")));
  cluster = await startLocalCluster(base);
  await start();
  const spec = { capacity: { poolMin: 1, poolMax: 1 }, maxSandboxesPerPod: 2 };
  await cluster.client.create(SandboxPool, { metadata: { name: "pool", namespace }, spec });
  await watched(cluster.client, SandboxPool, "pool", (each) => each !== undefined && isIdle(each as SandboxPool));
  await killOperators();
});

afterEach(async ({ task }) => {
  const { client } = cluster;
  if (task.result?.state === "fail") {
    // The operator may have died.
    await killOperators();
    await start();
  }
  for (const { metadata } of (await client.list(Sandbox, { namespace })).items) {
    await client.delete(Sandbox, { namespace, name: metadata.name ?? "" });
    await watched(client, Sandbox, metadata.name ?? "", (each) => each === undefined);
  }
  await watched(client, SandboxPool, "pool", (each) => each !== undefined && isIdle(each as SandboxPool));
  await killOperators();
});

afterAll(async () => {
  await start();
  await deleteAll(cluster.client);
  await killOperators();
  await cluster.stop();
  rmSync(base, { recursive: true, force: true });
});

/** How often each sandbox that the agent has was started: each start adds a line. */
async function starts(): Promise<Readonly<Record<string, number>>> {
  const pod = await cluster.client.get(Pod, { namespace, name: "pool-agent-0" });
  const programs = join(base, "operator", "agents", pod.metadata.uid ?? "", "programs");
  const ids = readdirSync(programs).filter((name) => !name.startsWith("."));
  return Object.fromEntries(
    ids.map((id) => [
      id,
      readFileSync(join(programs, id, "stdout.log"), "utf8")
        .trim()
        .split("\n").length,
    ]),
  );
}

/** Repeats a request while the answer is that an earlier create of the same name is still being completed or undone. */
async function insist(ask: () => Promise<CreateResponse>): Promise<CreateResponse> {
  for (;;) {
    try {
      return await ask();
    } catch (error) {
      const { code, rawMessage } = ConnectError.from(error);
      if (code !== Code.Unavailable || !rawMessage.endsWith("is in progress; retry")) throw error;
      await sleep(systemClock, 100);
    }
  }
}

describe.each([
  ["FAST", ConsistencyMode.FAST],
  ["STRONG", ConsistencyMode.STRONG],
])("the operator, killed during a %s create", (mode, consistencyMode) => {
  const stages: DeathStage[] = (["before", "after"] as const).flatMap((when): DeathStage[] => [
    { when, what: "create" },
    { when, what: "agent" },
    ...(mode === "STRONG" ? [{ when, what: "applyStatus", phase: "Creating" } as const] : []),
    { when, what: "applyStatus", phase: "Running" },
  ]);
  const named = stages.map((stage) => [`${stage.when} ${stage.what} ${stage.phase ?? ""}`.trim(), stage] as const);

  it.each(named)("%s: a repeated request yields one sandbox, started once", async (title, stage) => {
    const requestId = `${mode} ${title}`.replaceAll(" ", "-");
    const command = ["sh", "-c", "echo $$; exec sleep 600"];
    const request = { name: "one", image: "host", poolRef: "pool", command, consistencyMode, requestId };
    const dying = await start(stage);
    // The intent of the stage before may still be pending.
    const answer = insist(() => dying.fastPath.createSandbox(request)).catch(() => undefined);
    await dying.ended;
    const before = await answer;

    const { fastPath } = await start();
    const created = await insist(() => fastPath.createSandbox(request));
    if (before !== undefined) expect(created.sandboxId).toBe(before.sandboxId);
    const sandbox = await watched(cluster.client, Sandbox, "one", (each) => each?.status?.phase === "Running");
    expect(sandbox?.status?.sandboxID).toBe(created.sandboxId);
    expect((await cluster.client.list(Sandbox, { namespace })).items).toHaveLength(1);
    expect(await starts()).toEqual({ [created.sandboxId]: 1 });
    const pool = await watched(cluster.client, SandboxPool, "pool", (each) => each?.status?.busyAgents === 1);
    expect(pool?.status?.currentPods).toBe(1);
  });
});
