import type { ApplyConfiguration } from "@keelson/client";
import { type Condition, type DeepReadonly, isConflict, isNotFound, jsonEquals, setCondition } from "@keelson/api-machinery";
import {
  addFinalizer,
  defineController,
  type ReconcileContext,
  removeFinalizer,
  type Request,
  type Result,
  watchOf,
} from "@keelson/controller";
import { cleanupFinalizer, defaultSandboxesPerAgent } from "../api/names.ts";
import { Sandbox } from "../api/sandbox.ts";
import { SandboxPool } from "../api/sandbox-pool.ts";
import { runtimeOf } from "../runtime.ts";
import { decidePool } from "./sandbox-pool-decision.ts";
import { sandboxReads } from "./sandbox.ts";

const fieldManager = "sandboxes-pool-controller";
const startAgainMs = 15_000;

/** Makes and ends the agents of pools. */
export const sandboxPoolController = defineController({
  name: "sandboxes-pool",
  for: SandboxPool,
  reads: [sandboxReads],
  watches: [watchOf(Sandbox, (sandbox) => [{ namespace: sandbox.metadata.namespace, name: sandbox.spec.poolRef }])],
  reconcile,
});

async function reconcile(request: Request, context: ReconcileContext): Promise<Result | undefined> {
  const { cache, client } = context;
  const { fleet, registry, agentStatus } = runtimeOf(cache);
  const pool = cache.get(SandboxPool, request);
  if (pool === undefined) return undefined;
  const { namespace = "", name } = request;
  if (pool.metadata.deletionTimestamp === undefined && (await addFinalizer(client, SandboxPool, pool, cleanupFinalizer)))
    return undefined;

  const sandboxes = cache.list(Sandbox, { namespace, index: ["pool", name] });
  const own = (): ReturnType<typeof fleet.list> =>
    fleet.list().filter((agent) => agent.namespace === namespace && agent.pool === name);
  const busyOf = (agent: string): number =>
    Math.max(registry.allocated(namespace, agent), agentStatus(namespace, agent)?.allocated ?? 0);
  const decision = decidePool(
    pool,
    sandboxes,
    own().map((agent) => ({ name: agent.name, busy: busyOf(agent.name) })),
  );
  const capacity = pool.spec.maxSandboxesPerPod ?? defaultSandboxesPerAgent;
  let problem = pool.spec.runtimeType === "gvisor" ? "runtimeType gvisor is not there on this machine" : "";
  for (const agent of problem === "" ? decision.create : []) {
    try {
      await fleet.ensure({ namespace, pool: name, name: agent, capacity });
    } catch (error) {
      problem = error instanceof Error ? error.message : String(error);
    }
  }
  for (const agent of decision.remove) await fleet.remove(namespace, agent);

  if (pool.metadata.deletionTimestamp !== undefined) {
    if (own().length === 0) await removeFinalizer(client, SandboxPool, pool, cleanupFinalizer);
    return undefined;
  }
  await write(
    pool,
    statusOf(
      pool,
      own().map((agent) => agent.name),
      decision.desired,
      problem,
      context,
      busyOf,
    ),
    context,
  );
  return problem === "" ? undefined : { requeueAfterMs: startAgainMs };
}

function statusOf(
  pool: DeepReadonly<SandboxPool>,
  agents: readonly string[],
  desired: number,
  problem: string,
  { clock, cache }: ReconcileContext,
  busyOf: (agent: string) => number,
): Partial<NonNullable<SandboxPool["status"]>> {
  const { agentStatus } = runtimeOf(cache);
  const namespace = pool.metadata.namespace ?? "";
  const ready = agents.filter((agent) => agentStatus(namespace, agent) !== undefined).length;
  const busy = agents.filter((agent) => busyOf(agent) > 0).length;
  const isReady = problem === "" && ready >= desired;
  const conditions = setCondition(
    pool.status?.conditions as Condition[] | undefined,
    {
      type: "Ready",
      status: isReady,
      reason: problem !== "" ? "AgentNotStarted" : isReady ? "AgentsReady" : "AgentsMissing",
      message: problem !== "" ? problem : `${ready} of ${desired} agents are ready`,
      observedGeneration: pool.metadata.generation,
    },
    clock.now(),
  );
  return {
    ...(pool.metadata.generation !== undefined && { observedGeneration: pool.metadata.generation }),
    currentPods: agents.length,
    readyPods: ready,
    totalAgents: agents.length,
    idleAgents: agents.length - busy,
    busyAgents: busy,
    conditions: [...conditions],
  };
}

async function write(
  pool: DeepReadonly<SandboxPool>,
  status: Partial<NonNullable<SandboxPool["status"]>>,
  { client, signal }: ReconcileContext,
): Promise<void> {
  const { agents: _, ...before } = pool.status ?? {};
  if (jsonEquals(before, status)) return;
  const { name = "", namespace } = pool.metadata;
  try {
    const configuration = { metadata: { name, namespace }, status } as unknown as ApplyConfiguration<SandboxPool>;
    await client.applyStatus(SandboxPool, configuration, { fieldManager, signal });
  } catch (error) {
    if (!isConflict(error) && !isNotFound(error)) throw error;
  }
}
