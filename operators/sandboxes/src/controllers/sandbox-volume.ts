import { join } from "node:path";
import { type DeepReadonly, isConflict, isNotFound, jsonEquals } from "@keelson/api-machinery";
import { Pod } from "@keelson/api-machinery/kinds";
import {
  addFinalizer,
  type ControllerDefinition,
  defineController,
  readOf,
  removeFinalizer,
  type Request,
  type Result,
  watchOf,
} from "@keelson/controller";
import { removeTree } from "@keelson/execution/files";
import type { OperatorServices } from "@keelson/operator";
import { cleanupFinalizer } from "../api/names.ts";
import { Sandbox } from "../api/sandbox.ts";
import { SandboxPool } from "../api/sandbox-pool.ts";
import { SandboxVolume, volumeIndexes } from "../api/sandbox-volume.ts";
import { parseAgentPod } from "../fleet/agent-pod.ts";
import { AgentError } from "../protocol/agent-error.ts";
import { runtimeKey, type SandboxesContext, withRuntime } from "../runtime.ts";
import { volumeIdPattern } from "../volumes/volume-mount.ts";
import { sandboxReads } from "./sandbox.ts";
import { hasEnded } from "./sandbox-decision.ts";
import type { AgentView } from "./sandbox-steps.ts";
import { decideVolume, type VolumeStatusDraft, volumeStatus } from "./sandbox-volume-decision.ts";

const fieldManager = "sandboxes-volume-controller";

/** Pause before an agent that could not create, resize or delete a volume is asked again. */
const retryMs = 15_000;

const keyOf = ({ metadata }: DeepReadonly<SandboxVolume>): Request => ({
  namespace: metadata.namespace,
  name: metadata.name ?? "",
});

/** What agents have refused, by volume. They are not asked for it again before `retryAt`, whatever else changes. */
type Refusals = Map<string, { readonly wanted: string; readonly retryAt: number }>;

/** Reconciles SandboxVolumes. */
export function createVolumeController(services: OperatorServices): ControllerDefinition {
  const refusals: Refusals = new Map();
  return defineController({
    name: "sandboxes-volume",
    for: SandboxVolume,
    reads: [readOf(SandboxVolume, volumeIndexes), sandboxReads, readOf(SandboxPool), readOf(Pod)],
    watches: [
      // An agent of the pool changed.
      watchOf(SandboxPool, ({ metadata: { namespace, name } }, { cache }) =>
        cache.list(SandboxVolume, { namespace, index: ["pool", name] }).map(keyOf),
      ),
      // A sandbox no longer uses it.
      watchOf(Sandbox, ({ metadata: { namespace }, spec }) => (spec.volumes ?? []).map(({ name }) => ({ namespace, name }))),
    ],
    triggers: [
      {
        start: ({ cache, enqueue }) =>
          services.get(runtimeKey).onLoadChange(({ namespace, name }) => {
            for (const volume of cache.list(SandboxVolume, { namespace, index: ["pool", name] })) enqueue(keyOf(volume));
          }),
      },
    ],
    reconcile: (request, context) => reconcile(request, withRuntime(context, services.get(runtimeKey)), refusals),
  });
}

const refusalKey = ({ namespace, name }: Request): string => `${namespace}/${name}`;

async function reconcile(request: Request, context: SandboxesContext, refusals: Refusals): Promise<Result | undefined> {
  const { cache, client, clock, runtime } = context;
  const volume = cache.get(SandboxVolume, request);
  if (volume === undefined) {
    refusals.delete(refusalKey(request));
    return undefined;
  }
  const { namespace = "", uid } = volume.metadata;
  const now = clock.now();
  const step = decideVolume({
    ...{ volume, now },
    agent: agentOf(volume, context),
    candidate: candidateFor(volume, context),
    users: usersOf(volume, context),
    hasPool: cache.get(SandboxPool, { namespace, name: volume.spec.poolRef }) !== undefined,
  });
  const agent = (): ReturnType<typeof runtime.agentClient> => runtime.agentClient(namespace, volume.status?.assignedPod ?? "");
  switch (step.kind) {
    case "wait":
      return undefined;
    case "add-finalizer":
      await addFinalizer(client, SandboxVolume, volume, cleanupFinalizer);
      return undefined;
    case "remove-finalizer":
      await removeFiles(volume, context);
      await removeFinalizer(client, SandboxVolume, volume, cleanupFinalizer);
      return undefined;
    case "write":
      await write(volume, step.status, context);
      return undefined;
    case "create":
    case "resize": {
      const { kind, sizeBytes } = step;
      const [key, wanted] = [refusalKey(request), `${uid} ${kind} ${sizeBytes}`];
      const refusal = refusals.get(key);
      if (refusal?.wanted === wanted && now < refusal.retryAt) return { requeueAfterMs: refusal.retryAt - now };
      const result = await attempt(volume, kind === "create" ? "Failed" : "Ready", context, async () =>
        agent()?.changeVolume({ kind, volumeId: uid, sizeBytes }),
      );
      if (result === undefined) refusals.delete(key);
      else refusals.set(key, { wanted, retryAt: clock.now() + retryMs });
      return result;
    }
    case "delete":
      return attempt(volume, "Deleting", context, async () => {
        const agentClient = agent();
        if (agentClient === undefined) return;
        await agentClient.changeVolume({ kind: "delete", volumeId: uid });
        await removeFinalizer(client, SandboxVolume, volume, cleanupFinalizer);
      });
  }
}

/** Removes a volume on this machine that no agent is left to delete. Programs that have it mounted keep it until they end. */
async function removeFiles(
  { metadata: { uid = "" } }: DeepReadonly<SandboxVolume>,
  { runtime }: SandboxesContext,
): Promise<void> {
  const { tools } = runtime.placement;
  if (tools.kind === "local" && volumeIdPattern.test(uid)) await removeTree(join(tools.volumeDir, uid));
}

/** Asks the agent; its refusal becomes the status, and it is asked again later. */
async function attempt(
  volume: DeepReadonly<SandboxVolume>,
  phase: "Failed" | "Ready" | "Deleting",
  context: SandboxesContext,
  ask: () => Promise<void>,
): Promise<Result | undefined> {
  try {
    await ask();
    return undefined;
  } catch (error) {
    if (!(error instanceof AgentError)) throw error;
    // An agent that does not respond in time may still be growing the volume, and reports the size when it has.
    if (phase !== "Ready" || error.code === "Rejected")
      await write(volume, volumeStatus({ volume, now: context.clock.now() }, phase, error.message), context);
    return { requeueAfterMs: retryMs };
  }
}

function agentOf({ metadata, status }: DeepReadonly<SandboxVolume>, { cache, runtime }: SandboxesContext): AgentView {
  const { namespace = "" } = metadata;
  const name = status?.assignedPod;
  if (name === undefined) return { kind: "none" };
  const report = runtime.agentStatus(namespace, name);
  if (report !== undefined) return { kind: "ready", status: report };
  const pod = cache.get(Pod, { namespace, name });
  return { kind: pod === undefined || parseAgentPod(pod)?.isDead !== false ? "deleted" : "unreachable" };
}

/** The ready agent of the pool with the fewest volumes. */
function candidateFor(
  { metadata, spec }: DeepReadonly<SandboxVolume>,
  { cache, runtime }: SandboxesContext,
): { readonly name: string; readonly node: string } | undefined {
  const { namespace = "" } = metadata;
  const volumes = cache.list(SandboxVolume, { namespace, index: ["pool", spec.poolRef] });
  const countOf = (agent: string): number => volumes.filter(({ status }) => status?.assignedPod === agent).length;
  return runtime.registry
    .agents()
    .filter((agent) => agent.namespace === namespace && agent.pool === spec.poolRef && agent.isReady)
    .map(({ name, node }) => ({ name, node, count: countOf(name) }))
    .sort((one, other) => one.count - other.count || one.name.localeCompare(other.name))[0];
}

const usersOf = ({ metadata: { namespace, name = "" } }: DeepReadonly<SandboxVolume>, { cache }: SandboxesContext) =>
  volumeUsers(cache.list(Sandbox, { namespace, index: ["volume", name] }));

/** Names of the sandboxes that have not ended. */
export const volumeUsers = (sandboxes: readonly DeepReadonly<Sandbox>[]): readonly string[] =>
  sandboxes
    .filter((sandbox) => !hasEnded(sandbox))
    .map(({ metadata: { name = "" } }) => name)
    .sort();

async function write(
  volume: DeepReadonly<SandboxVolume>,
  status: VolumeStatusDraft,
  { client, signal, events }: SandboxesContext,
): Promise<void> {
  if (jsonEquals(volume.status, status)) return;
  const { name = "", namespace, resourceVersion } = volume.metadata;
  const { phase, message = "" } = status;
  if (phase !== undefined && phase !== volume.status?.phase) {
    const type = ["Failed", "Lost", "Away"].includes(phase) ? "Warning" : "Normal";
    events.event(volume, { type, reason: phase, note: message || `phase changed to ${phase}` });
  }
  try {
    await client.applyStatus(
      SandboxVolume,
      { metadata: { name, namespace, resourceVersion }, status },
      { fieldManager, signal },
    );
  } catch (error) {
    // The object changed: its watch event triggers the next reconcile.
    if (!isConflict(error) && !isNotFound(error)) throw error;
  }
}
