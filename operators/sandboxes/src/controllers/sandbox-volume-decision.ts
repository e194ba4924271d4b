import { type Condition, type DeepReadonly, setCondition } from "@keelson/api-machinery";
import { quantityToBytes } from "@keelson/api-machinery/quantity";
import { formatTime } from "@keelson/api-machinery/time";
import { cleanupFinalizer } from "../api/names.ts";
import { type SandboxVolume, type VolumePhase, volumeSizes } from "../api/sandbox-volume.ts";
import type { AgentView } from "./sandbox-steps.ts";

/*
 * The life cycle of a SandboxVolume:
 *
 *     Pending --assigned to an agent, created there--> Ready <--> Away (its agent does not report)
 *        |                                               |------> Lost (its agent reports, but no longer has it)
 *        |--its agent cannot create it--> Failed         any of these --deletion--> Deleting --> deleted
 *
 * The agent is written before the volume is created there, and the volume counts as created only once the agent reports it.
 */

/** The status to write. */
export type VolumeStatusDraft = NonNullable<SandboxVolume["status"]>;

/** The input of a decision. */
export interface VolumeObservation {
  readonly volume: DeepReadonly<SandboxVolume>;
  /** The assigned agent. */
  readonly agent: AgentView;
  /** A ready agent of the pool for a volume without one. */
  readonly candidate: { readonly name: string; readonly node: string } | undefined;
  /** Names of the sandboxes that use it and have not ended. */
  readonly users: readonly string[];
  /** Whether its pool exists, so that a missing agent comes back. */
  readonly hasPool: boolean;
  readonly now: number;
}

/** The next step. */
export type VolumeStep =
  | { readonly kind: "wait" }
  | { readonly kind: "add-finalizer" }
  | { readonly kind: "remove-finalizer" }
  /** Create it on its agent, which then reports it. */
  | { readonly kind: "create"; readonly sizeBytes: number }
  /** Delete it on its agent, then remove the finalizer. */
  | { readonly kind: "delete" }
  | { readonly kind: "write"; readonly status: VolumeStatusDraft };

/** What is wrong with a size; undefined if it is valid. */
export function sizeProblem(size: string | number): string | undefined {
  const bytes = quantityToBytes(String(size));
  return bytes >= volumeSizes.min && bytes <= volumeSizes.max
    ? undefined
    : `Invalid value: ${JSON.stringify(size)}: must be 16Mi to 1Ti`;
}

/** The status with another phase. */
export function volumeStatus(
  { volume, now }: Pick<VolumeObservation, "volume" | "now">,
  phase: VolumePhase,
  message: string,
  change: Partial<VolumeStatusDraft> = {},
): VolumeStatusDraft {
  const { generation } = volume.metadata;
  const conditions = setCondition(
    volume.status?.conditions as Condition[] | undefined,
    { type: "Ready", status: phase === "Ready", reason: phase, message, observedGeneration: generation },
    now,
  );
  return {
    ...(volume.status as VolumeStatusDraft | undefined),
    ...{ phase, message, conditions: [...conditions] },
    ...(generation !== undefined && { observedGeneration: generation }),
    ...change,
  };
}

/** Decides the next step of a SandboxVolume. */
export function decideVolume(observation: VolumeObservation): VolumeStep {
  const { metadata, spec, status = {} } = observation.volume;
  const hasFinalizer = metadata.finalizers?.includes(cleanupFinalizer) ?? false;
  if (metadata.deletionTimestamp !== undefined) return hasFinalizer ? decideDeletion(observation) : { kind: "wait" };
  if (!hasFinalizer) return { kind: "add-finalizer" };
  const write = (phase: VolumePhase, message: string, change?: Partial<VolumeStatusDraft>): VolumeStep => ({
    kind: "write",
    status: volumeStatus(observation, phase, message, change),
  });
  const { agent, candidate, now } = observation;
  const problem = sizeProblem(spec.size);
  if (problem !== undefined) return write("Failed", `spec.size: ${problem}`);
  if (status.assignedPod === undefined) {
    if (candidate === undefined) return write("Pending", `no agent of pool ${spec.poolRef} is ready`);
    const { name: assignedPod, node: nodeName } = candidate;
    return write("Pending", `being created on agent ${assignedPod}`, { assignedPod, nodeName });
  }
  const isCreated = status.createdTime !== undefined;
  if (agent.kind !== "ready")
    return write(isCreated ? "Away" : "Pending", `agent ${status.assignedPod}, which has it, does not report`);
  if (agent.status.volumes?.includes(metadata.uid ?? "") === true)
    return write("Ready", "", isCreated ? {} : { createdTime: formatTime(now) });
  // Never created again: an empty volume would look like the one that was lost.
  if (isCreated) return write("Lost", `agent ${status.assignedPod} no longer has it; its files are lost`);
  return { kind: "create", sizeBytes: Math.round(quantityToBytes(String(spec.size))) };
}

function decideDeletion(observation: VolumeObservation): VolumeStep {
  const { volume, agent, users, hasPool } = observation;
  const write = (message: string): VolumeStep => ({ kind: "write", status: volumeStatus(observation, "Deleting", message) });
  if (users.length > 0) return write(`in use by ${users.length === 1 ? "sandbox" : "sandboxes"} ${users.join(", ")}`);
  const { assignedPod } = volume.status ?? {};
  if (assignedPod === undefined) return { kind: "remove-finalizer" };
  if (agent.kind === "ready") return { kind: "delete" };
  if (agent.kind === "deleted" && !hasPool) return { kind: "remove-finalizer" };
  return write(`agent ${assignedPod}, which has it, does not report`);
}
