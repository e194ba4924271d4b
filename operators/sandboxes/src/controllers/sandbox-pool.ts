import { randomBytes } from "node:crypto";
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
  readOf,
  removeFinalizer,
  type Request,
  type Result,
  watchOf,
} from "@keelson/controller";
import type { OperatorServices } from "@keelson/operator";
import {
  type AgentPlacement,
  type AgentPod,
  agentPod,
  agentSecret,
  agentSecretName,
  listAgents,
  runtimeProblem,
} from "../fleet/agent-pod.ts";
import { agentLabels, cleanupFinalizer } from "../api/names.ts";
import { Sandbox } from "../api/sandbox.ts";
import { SandboxPool } from "../api/sandbox-pool.ts";
import type { WarmStatus } from "@keelson/execution";
import { sumWarm } from "../fleet/warm-status.ts";
import { runtimeKey, type SandboxesContext, withRuntime } from "../runtime.ts";
import { SandboxVolume, volumeIndexes } from "../api/sandbox-volume.ts";
import { decidePool, type PoolNeeds } from "./sandbox-pool-decision.ts";
import { sandboxReads } from "./sandbox.ts";

const fieldManager = "sandboxes-pool-controller";

type PoolStatus = Partial<NonNullable<SandboxPool["status"]>>;
const retryMs = 15_000;

/** Creates and removes the agents of pools: Pods, each with its own key. */
export function createSandboxPoolController(services: OperatorServices): ControllerDefinition {
  return defineController({
    name: "sandboxes-pool",
    for: SandboxPool,
    owns: [Pod],
    reads: [sandboxReads, readOf(SandboxVolume, volumeIndexes)],
    watches: [
      watchOf(SandboxVolume, ({ metadata: { namespace }, spec }) => [{ namespace, name: spec.poolRef }]),
      watchOf(Sandbox, (sandbox) => [{ namespace: sandbox.metadata.namespace, name: sandbox.spec.poolRef }]),
    ],
    // Agents report a deletion before or after the object of the sandbox is deleted.
    triggers: [{ start: ({ enqueue }) => services.get(runtimeKey).onLoadChange(enqueue) }],
    reconcile: (request, context) => reconcile(request, withRuntime(context, services.get(runtimeKey))),
  });
}

async function reconcile(request: Request, context: SandboxesContext): Promise<Result | undefined> {
  const { cache, client } = context;
  const { registry, agentStatus, placement, rejected } = context.runtime;
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
    {
      ...volumesOf(cache.list(SandboxVolume, { namespace, index: ["pool", name] })),
      hasRejected: rejected.isRecent({ namespace, name }),
    },
  );
  let problem = asProblem(runtimeProblem(pool, placement));
  if (problem === undefined && decision.create.length > 0) {
    try {
      // Names are numbered, so that creating the same agent again conflicts instead of adding another one.
      for (const agent of decision.create) await createAgent(pool, agent, placement, client);
    } catch (error) {
      problem = asProblem(error instanceof Error ? error.message : String(error));
    }
  }
  for (const agent of agents) {
    // Drained first, so that no sandbox is assigned to an agent that is being removed.
    if (decision.remove.includes(agent.name) && (agent.isDead || registry.drain(namespace, agent.name))) {
      await remove(agent, context);
    }
  }

  if (pool.metadata.deletionTimestamp !== undefined) {
    if (agents.length === 0) {
      await removeFinalizer(client, SandboxPool, pool, cleanupFinalizer);
      return undefined;
    }
    problem = { reason: "Deleting", message: deletionMessage(agents.reduce((sum, agent) => sum + busyOf(agent.name), 0)) };
  }
  const delayMs = await write(
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
  if (problem?.reason === notStarted) return { requeueAfterMs: retryMs };
  return delayMs === undefined ? undefined : { requeueAfterMs: delayMs };
}

/** Why a pool is not ready, if its agents are not the reason. */
interface PoolProblem {
  readonly reason: typeof notStarted | "Deleting";
  readonly message: string;
}

const notStarted = "AgentNotStarted";

const asProblem = (message: string | undefined): PoolProblem | undefined =>
  message === undefined ? undefined : { reason: notStarted, message };

/** What the deletion of a pool with so many sandboxes on its agents waits for. */
const deletionMessage = (sandboxes: number): string =>
  sandboxes === 0
    ? "the pool is being deleted and waits for its agents to stop"
    : `the pool is being deleted and waits for ${sandboxes} sandboxes on its agents to end; delete them to continue`;

function volumesOf(volumes: readonly DeepReadonly<SandboxVolume>[]): Pick<PoolNeeds, "pinned" | "isAgentWanted"> {
  const assigned = volumes.map(({ status }) => status?.assignedPod);
  const isAgentWanted = volumes.some(
    ({ metadata, status }) =>
      metadata.deletionTimestamp === undefined && status?.assignedPod === undefined && status?.phase !== "Failed",
  );
  return { pinned: new Set(assigned.filter((name) => name !== undefined)), isAgentWanted };
}

function agentsOf(pool: string, namespace: string, cache: SandboxesContext["cache"]): readonly AgentPod[] {
  const pods = cache.list(Pod, { namespace, labelSelector: `${agentLabels.pool}=${pool}` });
  return listAgents(pods).filter((agent) => agent.pool === pool);
}

/** Creates an agent's Secret and Pod. A crash in between leaves a Secret that goes with the pool. */
async function createAgent(
  pool: DeepReadonly<SandboxPool>,
  name: string,
  placement: AgentPlacement,
  client: SandboxesContext["client"],
): Promise<void> {
  const secret = agentSecretName(name, randomBytes(5).toString("hex"));
  await client.create(Secret, agentSecret(pool, secret, randomBytes));
  try {
    await client.create(Pod, agentPod(pool, name, secret, placement));
  } catch (error) {
    await client.delete(Secret, { namespace: pool.metadata.namespace, name: secret });
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
  problem: PoolProblem | undefined,
  { clock, runtime }: SandboxesContext,
  busyOf: (agent: string) => number,
): PoolStatus {
  const { agentStatus } = runtime;
  const namespace = pool.metadata.namespace ?? "";
  const ready = agents.filter((agent) => agentStatus(namespace, agent) !== undefined).length;
  const busy = agents.filter((agent) => busyOf(agent) > 0).length;
  const isReady = problem === undefined && ready >= desired;
  const conditions = setCondition(
    pool.status?.conditions as Condition[] | undefined,
    {
      type: "Ready",
      status: isReady,
      reason: problem?.reason ?? (isReady ? "AgentsReady" : "AgentsMissing"),
      message: problem?.message ?? `${ready} of ${Math.max(ready, desired)} agents are ready`,
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
    ...warmStatusOf(
      agents.flatMap((agent) => agentStatus(namespace, agent)?.warm ?? []),
      clock.now(),
    ),
  };
}

function warmStatusOf(statuses: readonly WarmStatus[], now: number): Pick<PoolStatus, "warm"> {
  if (statuses.length === 0) return {};
  const { shells, images, problem } = sumWarm(statuses);
  return {
    warm: {
      desired: shells.desired + images.desired,
      ready: shells.ready + images.ready,
      observedTime: new Date(now).toISOString(),
      ...(problem !== undefined && { message: problem }),
    },
  };
}

/** Every create and delete changes the number of ready slots. */
const warmIntervalMs = 5_000;

/** Writes a changed status. Returns after how long to repeat this, if the number of ready slots alone was written recently. */
async function write(
  pool: DeepReadonly<SandboxPool>,
  status: PoolStatus,
  { client, signal, clock }: SandboxesContext,
): Promise<number | undefined> {
  const { agents: _, warm: warmBefore, ...before } = pool.status ?? {};
  const { warm, ...rest } = status;
  if (jsonEquals(before, rest)) {
    const observedTime = warm?.observedTime;
    if (jsonEquals(warmBefore && { ...warmBefore, observedTime }, warm)) return undefined;
    const ageMs = clock.now() - Date.parse(warmBefore?.observedTime ?? "1970-01-01T00:00:00Z");
    if (warm !== undefined && ageMs >= 0 && ageMs < warmIntervalMs) return warmIntervalMs - ageMs;
  }
  const { name = "", namespace } = pool.metadata;
  try {
    const configuration = { metadata: { name, namespace }, status };
    await client.applyStatus(SandboxPool, configuration, { fieldManager, signal });
  } catch (error) {
    if (!isConflict(error) && !isNotFound(error)) throw error;
  }
  return undefined;
}
