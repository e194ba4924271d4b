import { type DeepReadonly, isConflict, isNotFound } from "@keelson/api-machinery";
import { Pod } from "@keelson/api-machinery/kinds";
import { formatTime } from "@keelson/api-machinery/time";
import {
  addFinalizer,
  defineController,
  readOf,
  type ControllerDefinition,
  removeFinalizer,
  type Request,
  type Result,
  watchOf,
} from "@keelson/controller";
import type { OperatorServices } from "@keelson/operator";
import { parseAgentPod } from "../fleet/agent-pod.ts";
import { agentSandbox } from "../fleet/agent-sandbox.ts";
import { AgentError } from "../protocol/agent-error.ts";
import { cleanupFinalizer } from "../api/names.ts";
import { Sandbox } from "../api/sandbox.ts";
import { SandboxVolume, volumeIndexes } from "../api/sandbox-volume.ts";
import { claimsOf } from "../registry/registry.ts";
import { cachedVolumes } from "../volumes/resolve-volumes.ts";
import { SandboxPool } from "../api/sandbox-pool.ts";
import { runtimeKey, type SandboxesContext, withRuntime } from "../runtime.ts";
import { agentReports } from "./agent-reports.ts";
import { fastPathAllocation, instanceId } from "./instance.ts";
import { environmentOf } from "./sandbox-environment.ts";
import { decideSandbox, hasEnded } from "./sandbox-decision.ts";
import { type AgentView } from "./sandbox-steps.ts";
import { draftOf, type SandboxStatusDraft, unbound } from "./status-draft.ts";

const fieldManager = "sandboxes-sandbox-controller";

/** How long a delete may take to appear in the agent's status before it is repeated. */
const retryMs = 15_000;

/** Indexes of Sandboxes: by pool, by volume, and by id on the agent. */
export const sandboxReads = readOf(Sandbox, {
  pool: (sandbox) => [sandbox.spec.poolRef],
  volume: (sandbox) => (sandbox.spec.volumes ?? []).map(({ name }) => name),
  sandboxID: (sandbox) => (sandbox.status?.sandboxID === undefined ? [] : [sandbox.status.sandboxID]),
});

const keyOf = ({ metadata }: DeepReadonly<Sandbox>): Request => ({ namespace: metadata.namespace, name: metadata.name ?? "" });

/** Reconciles Sandboxes. */
export function createSandboxController(services: OperatorServices): ControllerDefinition {
  return defineController({
    name: "sandboxes-sandbox",
    for: Sandbox,
    maxConcurrentReconciles: 16,
    reads: [sandboxReads, readOf(SandboxVolume, volumeIndexes), readOf(Pod)],
    watches: [
      // An agent of the pool changed.
      watchOf(SandboxPool, (pool, { cache }) =>
        cache.list(Sandbox, { namespace: pool.metadata.namespace, index: ["pool", pool.metadata.name ?? ""] }).map(keyOf),
      ),
      // A volume became ready.
      watchOf(SandboxVolume, ({ metadata: { namespace, name } }, { cache }) =>
        cache.list(Sandbox, { namespace, index: ["volume", name] }).map(keyOf),
      ),
      // A slot may be free for a waiting Sandbox.
      watchOf(
        Sandbox,
        (sandbox, { cache }) =>
          cache
            .list(Sandbox, { namespace: sandbox.metadata.namespace, index: ["pool", sandbox.spec.poolRef] })
            .filter((other) => other.status?.phase === "Pending")
            .map(keyOf),
        [
          (change) =>
            change.type === "delete" ||
            (change.type === "update" &&
              change.old !== undefined &&
              change.old.status?.assignedPod !== undefined &&
              (change.object.status?.assignedPod === undefined || (hasEnded(change.object) && !hasEnded(change.old)))),
        ],
      ),
    ],
    triggers: [agentReports(services)],
    reconcile: (request, context) => reconcile(request, withRuntime(context, services.get(runtimeKey))),
  });
}

async function reconcile(request: Request, context: SandboxesContext): Promise<Result | undefined> {
  const { cache, client, clock, events, runtime } = context;
  const sandbox = cache.get(Sandbox, request);
  const key = `${request.namespace}/${request.name}`;
  if (sandbox === undefined) {
    runtime.registry.releaseObject(key, (holder) => runtime.isPending(holder));
    return undefined;
  }
  const release = (): void => {
    const own = [sandbox.status?.sandboxID, fastPathAllocation(sandbox)?.sandboxId];
    runtime.registry.releaseObject(key, (holder) => !own.includes(holder));
  };
  const now = clock.now();
  const { step, requeueAfterMs } = decideSandbox({ sandbox, agent: agentOf(sandbox, context), now });
  const result = requeueAfterMs === undefined ? undefined : { requeueAfterMs };
  switch (step.kind) {
    case "wait":
      return result;
    case "add-finalizer":
      await addFinalizer(client, Sandbox, sandbox, cleanupFinalizer);
      return result;
    case "remove-finalizer":
      release();
      await removeFinalizer(client, Sandbox, sandbox, cleanupFinalizer);
      return undefined;
    case "write":
      if (step.releases) release();
      // After a conflict the next reconcile decides again: what was not written has not happened.
      if (await write(sandbox, step.status, context)) reportPhase(sandbox, step.status, events);
      return result;
    case "place":
      return place(sandbox, key, step.status, context, result);
    case "create":
      return create(sandbox, key, step.sandboxId, context, result);
    case "set-expiry":
      await runtime.agentClient(request.namespace ?? "", boundAgent(sandbox) ?? "")?.expire(step.sandboxId, step.expiresAtMs);
      return result;
    case "pause":
      return pause(sandbox, step.sandboxId, context, result);
    case "resume":
      await runtime.agentClient(request.namespace ?? "", boundAgent(sandbox) ?? "")?.resume(step.sandboxId, step.expiresAtMs);
      return result;
    case "delete-object":
      await deleteFinished(sandbox, context);
      return undefined;
    case "delete": {
      const agent = boundAgent(sandbox);
      await runtime.agentClient(request.namespace ?? "", agent ?? "")?.delete(step.sandboxId);
      return { requeueAfterMs: Math.min(requeueAfterMs ?? retryMs, retryMs) };
    }
  }
}

/** Pauses a sandbox on its agent. An agent that cannot is asked again later, and the reason is an event. */
async function pause(
  sandbox: DeepReadonly<Sandbox>,
  sandboxId: string,
  { runtime, events }: SandboxesContext,
  result: Result | undefined,
): Promise<Result | undefined> {
  const agent = runtime.agentClient(sandbox.metadata.namespace ?? "", boundAgent(sandbox) ?? "");
  try {
    await agent?.pause(sandboxId);
    return result;
  } catch (error) {
    if (!(error instanceof AgentError) || error.code !== "Rejected") throw error;
    events.event(sandbox, { type: "Warning", reason: "PauseFailed", note: error.message });
    return { requeueAfterMs: Math.min(result?.requeueAfterMs ?? retryMs, retryMs) };
  }
}

/** Deletes a finished object unless it changed, for instance because it was reset. */
async function deleteFinished({ metadata }: DeepReadonly<Sandbox>, { client }: SandboxesContext): Promise<void> {
  const { name = "", namespace, uid, resourceVersion } = metadata;
  try {
    await client.delete(Sandbox, { namespace, name }, { preconditions: { uid, resourceVersion } });
  } catch (error) {
    if (!isConflict(error) && !isNotFound(error)) throw error;
  }
}

const boundAgent = (sandbox: DeepReadonly<Sandbox>): string | undefined =>
  sandbox.status?.assignedPod ?? (sandbox.status?.phase === undefined ? fastPathAllocation(sandbox)?.pod : undefined);

function agentOf(sandbox: DeepReadonly<Sandbox>, { cache, runtime }: SandboxesContext): AgentView {
  const namespace = sandbox.metadata.namespace ?? "";
  const name = boundAgent(sandbox);
  if (name === undefined) return { kind: "none" };
  const status = runtime.agentStatus(namespace, name);
  if (status !== undefined) return { kind: "ready", status };
  const pod = cache.get(Pod, { namespace, name });
  return { kind: pod === undefined || parseAgentPod(pod)?.isDead !== false ? "deleted" : "unreachable" };
}

async function place(
  sandbox: DeepReadonly<Sandbox>,
  key: string,
  status: SandboxStatusDraft,
  context: SandboxesContext,
  result: Result | undefined,
): Promise<Result | undefined> {
  const { registry } = context.runtime;
  const { namespace = "", uid = "" } = sandbox.metadata;
  const { spec } = sandbox;
  const volumes = cachedVolumes(spec, namespace, context.cache);
  const slot = { key, namespace, pool: spec.poolRef, image: spec.image, ...claimsOf(spec) };
  const found = volumes.kind === "problem" ? { problem: volumes.message } : registry.allocate({ ...slot, only: volumes.agent });
  const now = context.clock.now();
  if ("problem" in found) {
    if (spec.whenFull === "Reject") {
      context.runtime.rejected.add({ namespace, name: spec.poolRef });
      const finishTime = formatTime(now);
      await write(sandbox, draftOf(sandbox, "Failed", found.problem, now, { finishTime }), context);
      return undefined;
    }
    if (sandbox.status?.phase !== "Pending" || sandbox.status.message !== found.problem) {
      await write(sandbox, draftOf(sandbox, "Pending", found.problem, now), context);
    }
    return result;
  }
  const { agent } = found;
  await write(
    sandbox,
    {
      ...status,
      message: `starting on agent ${agent.name}`,
      assignedPod: agent.name,
      nodeName: agent.node,
      sandboxID: instanceId(uid, sandbox.status?.instance ?? 0),
    },
    context,
  );
  return result;
}

async function create(
  sandbox: DeepReadonly<Sandbox>,
  key: string,
  sandboxId: string,
  context: SandboxesContext,
  result: Result | undefined,
): Promise<Result | undefined> {
  const { runtime } = context;
  const { namespace = "" } = sandbox.metadata;
  const pod = sandbox.status?.assignedPod ?? "";
  const agent = runtime.registry.agent(namespace, pod);
  runtime.registry.restore(key, namespace, pod, claimsOf(sandbox.spec));
  const env = await environmentOf(sandbox, context);
  const now = context.clock.now();
  const volumes = cachedVolumes(sandbox.spec, namespace, context.cache);
  const problem = "problem" in env ? env.problem : volumes.kind === "problem" ? volumes.message : undefined;
  if ("problem" in env || volumes.kind === "problem") {
    await write(sandbox, draftOf(sandbox, "Creating", problem ?? "", now), context);
    return { requeueAfterMs: retryMs };
  }
  const { name: claimName = "", uid: claimUid = "" } = sandbox.metadata;
  const identity = { sandboxId, claimUid, claimName, namespace };
  const answer = await runtime
    .agentClient(namespace, pod)
    ?.create(agentSandbox(identity, sandbox.spec, env.env, volumes.mounts));
  if (answer === undefined) return result;
  if (answer.success) {
    const endpoints = (sandbox.spec.exposedPorts ?? []).map((port) => `${agent?.address ?? "127.0.0.1"}:${port}`);
    const startTime = formatTime((answer.createdAt ?? Math.floor(now / 1000)) * 1000);
    const running = draftOf(sandbox, "Running", answer.message ?? "", now, { endpoints, startTime });
    if (await write(sandbox, running, context))
      context.events.event(sandbox, { type: "Normal", reason: "Running", note: `running on agent ${pod}` });
  } else if (answer.rejected === true) {
    // Rejected without side effects: try another agent, with a new id.
    runtime.registry.release(key);
    const next = draftOf(sandbox, "Pending", answer.message ?? "rejected by its agent", now, {
      instance: (sandbox.status?.instance ?? 0) + 1,
    });
    await write(sandbox, unbound(next), context);
  } else {
    const message = answer.message ?? "could not start";
    // The agent has nothing of it.
    runtime.registry.release(key);
    const failed = draftOf(sandbox, "Failed", message, now, { finishTime: formatTime(now) });
    if (await write(sandbox, failed, context))
      context.events.event(sandbox, { type: "Warning", reason: "Failed", note: message });
  }
  return result;
}

/** Reports a change of the phase as an event. */
function reportPhase(
  sandbox: DeepReadonly<Sandbox>,
  { phase, message }: SandboxStatusDraft,
  events: SandboxesContext["events"],
): void {
  if (phase === undefined || phase === sandbox.status?.phase) return;
  const type = phase === "Failed" || phase === "Lost" ? "Warning" : "Normal";
  events.event(sandbox, { type, reason: phase, note: message || `phase changed to ${phase}` });
}

/** Writes a status unless the sandbox has changed. Returns whether it was written. */
async function write(
  sandbox: DeepReadonly<Sandbox>,
  status: SandboxStatusDraft,
  { client, signal }: SandboxesContext,
): Promise<boolean> {
  const { name = "", namespace, resourceVersion } = sandbox.metadata;
  const configuration = { metadata: { name, namespace, resourceVersion }, status };
  try {
    await client.applyStatus(Sandbox, configuration, { fieldManager, signal });
    return true;
  } catch (error) {
    // The object changed: its watch event triggers the next reconcile.
    if (!isConflict(error) && !isNotFound(error)) throw error;
    return false;
  }
}
