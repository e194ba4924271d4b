import {
  type Condition,
  type DeepReadonly,
  isAlreadyExists,
  isConflict,
  isNotFound,
  jsonEquals,
  setCondition,
} from "@keelson/api-machinery";
import { Pod, Secret } from "@keelson/api-machinery/kinds";
import {
  addFinalizer,
  defineController,
  type ControllerDefinition,
  removeFinalizer,
  type Request,
  type Result,
  watchOf,
} from "@keelson/controller";
import type { OperatorServices } from "@keelson/operator";
import { type AgentPod, agentsOfPods, agentPod, tokenSecret } from "../fleet/agent-pod.ts";
import { agentLabels, cleanupFinalizer } from "../api/names.ts";
import { Sandbox } from "../api/sandbox.ts";
import { SandboxPool } from "../api/sandbox-pool.ts";
import { runtimeKey, type SandboxesContext } from "../runtime.ts";
import { decidePool } from "./sandbox-pool-decision.ts";
import { sandboxReads } from "./sandbox.ts";

const fieldManager = "sandboxes-pool-controller";
const startAgainMs = 15_000;

/** Makes and ends the agents of pools: Pods, each with the pool's token. */
export function createSandboxPoolController(services: OperatorServices): ControllerDefinition {
  return defineController({
    name: "sandboxes-pool",
    for: SandboxPool,
    owns: [Pod],
    reads: [sandboxReads],
    watches: [watchOf(Sandbox, (sandbox) => [{ namespace: sandbox.metadata.namespace, name: sandbox.spec.poolRef }])],
    reconcile(request, { cache, client, clock, events, log, signal }) {
      // Named one by one: the context computes some of them, which a spread would drop.
      return reconcile(request, { cache, client, clock, events, log, signal, runtime: services.get(runtimeKey) });
    },
  });
}

async function reconcile(request: Request, context: SandboxesContext): Promise<Result | undefined> {
  const { cache, client } = context;
  const { registry, agentStatus, placement } = context.runtime;
  const pool = cache.get(SandboxPool, request);
  if (pool === undefined) return undefined;
  const { namespace = "", name } = request;
  if (pool.metadata.deletionTimestamp === undefined && (await addFinalizer(client, SandboxPool, pool, cleanupFinalizer)))
    return undefined;

  const sandboxes = cache.list(Sandbox, { namespace, index: ["pool", name] });
  const agents = agentsOf(name, namespace, cache);
  const busyOf = (agent: string): number =>
    Math.max(registry.allocated(namespace, agent), agentStatus(namespace, agent)?.allocated ?? 0);
  const decision = decidePool(
    pool,
    sandboxes,
    agents.map(({ name: agent, isEnding, isDead }) => ({ name: agent, busy: busyOf(agent), isEnding, isDead })),
  );
  let problem = pool.spec.runtimeType === "gvisor" ? "runtimeType gvisor is not there on this machine" : "";
  if (problem === "" && decision.create.length > 0) {
    try {
      // Names are counted, so that a second create of the same agent is refused, and not a second agent.
      await onceOnly(() => client.create(Secret, tokenSecret(pool)));
      for (const agent of decision.create) await onceOnly(() => client.create(Pod, agentPod(pool, agent, placement)));
    } catch (error) {
      problem = error instanceof Error ? error.message : String(error);
    }
  }
  for (const agent of agents) {
    // From here on nothing is placed there, so that no sandbox gets on an agent that goes.
    if (decision.remove.includes(agent.name) && (agent.isDead || registry.drain(namespace, agent.name))) {
      await remove(agent, context);
    }
  }

  if (pool.metadata.deletionTimestamp !== undefined) {
    if (agents.length === 0) await removeFinalizer(client, SandboxPool, pool, cleanupFinalizer);
    return undefined;
  }
  await write(
    pool,
    statusOf(
      pool,
      agents.filter((agent) => !agent.isEnding).map((agent) => agent.name),
      decision.desired,
      problem,
      context,
      busyOf,
    ),
    context,
  );
  return problem === "" ? undefined : { requeueAfterMs: startAgainMs };
}

function agentsOf(pool: string, namespace: string, cache: SandboxesContext["cache"]): readonly AgentPod[] {
  const pods = cache.list(Pod, { namespace, labelSelector: `${agentLabels.pool}=${pool}` });
  return agentsOfPods(pods).filter((agent) => agent.pool === pool);
}

async function onceOnly(create: () => Promise<unknown>): Promise<void> {
  try {
    await create();
  } catch (error) {
    if (!isAlreadyExists(error)) throw error;
  }
}

async function remove({ namespace, name, uid }: AgentPod, { client, runtime }: SandboxesContext): Promise<void> {
  try {
    await client.delete(Pod, { namespace, name }, { preconditions: { uid } });
  } catch (error) {
    runtime.registry.resume(namespace, name);
    if (!isConflict(error) && !isNotFound(error)) throw error;
  }
}

function statusOf(
  pool: DeepReadonly<SandboxPool>,
  agents: readonly string[],
  desired: number,
  problem: string,
  { clock, runtime }: SandboxesContext,
  busyOf: (agent: string) => number,
): Partial<NonNullable<SandboxPool["status"]>> {
  const { agentStatus } = runtime;
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
  { client, signal }: SandboxesContext,
): Promise<void> {
  const { agents: _, ...before } = pool.status ?? {};
  if (jsonEquals(before, status)) return;
  const { name = "", namespace } = pool.metadata;
  try {
    const configuration = { metadata: { name, namespace }, status };
    await client.applyStatus(SandboxPool, configuration, { fieldManager, signal });
  } catch (error) {
    if (!isConflict(error) && !isNotFound(error)) throw error;
  }
}
