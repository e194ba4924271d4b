import { type Condition, type DeepReadonly, setCondition } from "@keelson/api-machinery";
import { compareQuantities, isQuantity, quantityToBytes } from "@keelson/api-machinery/quantity";
import { formatTime } from "@keelson/api-machinery/time";
import { cleanupFinalizer } from "../api/names.ts";
import { type SandboxVolume, type VolumePhase, volumeSizes } from "../api/sandbox-volume.ts";
import type { AgentStatus } from "../protocol/protocol.ts";
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
  /** Grow it on its agent, which then reports its size. */
  | { readonly kind: "resize"; readonly sizeBytes: number }
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
  const isCreated = status.createdTime !== undefined;
  const problem = sizeProblem(spec.size);
  if (problem !== undefined && !isCreated) return write("Failed", `spec.size: ${problem}`);
  if (status.assignedPod === undefined) {
    if (candidate === undefined) return write("Pending", `no agent of pool ${spec.poolRef} is ready`);
    const { name: assignedPod, node: nodeName } = candidate;
    return write("Pending", `being created on agent ${assignedPod}`, { assignedPod, nodeName });
  }
  if (agent.kind !== "ready")
    return write(isCreated ? "Away" : "Pending", `agent ${status.assignedPod}, which stores it, is not reporting`);
  const sizeBytes = bytesOf(spec.size);
  if (agent.status.volumes?.includes(metadata.uid ?? "") === true) {
    const present = presentSize(agent.status, metadata.uid);
    if (problem === undefined && isCreated && present !== undefined && present < sizeBytes)
      return { kind: "resize", sizeBytes };
    const message = problem === undefined ? unknownSizeProblem(observation.volume, present) : `spec.size: ${problem}`;
    const size = present === undefined ? {} : { size: sizeText(present, spec.size, status.size) };
    return write("Ready", message, { ...size, ...(!isCreated && { createdTime: formatTime(now) }) });
  }
  // Never created again: an empty volume would look like the one that was lost.
  if (isCreated) return write("Lost", `agent ${status.assignedPod} no longer has it; its files are lost`);
  return { kind: "create", sizeBytes };
}

const bytesOf = (size: string | number): number => Math.round(quantityToBytes(String(size)));

/** A size as the user has written it, if it is that; else in bytes. */
function sizeText(bytes: number, ...texts: readonly (string | number | undefined)[]): string {
  return String(texts.find((text) => isQuantity(text) && bytesOf(text) === bytes) ?? bytes);
}

/** The size that an agent reports for a volume; undefined without a valid one. */
function presentSize({ volumeSizes }: DeepReadonly<AgentStatus>, uid = ""): number | undefined {
  const bytes: unknown = volumeSizes?.[uid];
  return Number.isSafeInteger(bytes) && Number(bytes) > 0 ? Number(bytes) : undefined;
}

/** Why a volume that was smaller when its size was last reported does not grow; empty otherwise. */
function unknownSizeProblem(volume: DeepReadonly<SandboxVolume>, present: number | undefined): string {
  const { spec, status = {} } = volume;
  if (present !== undefined || status.size === undefined || hasSize(volume, spec.size)) return "";
  return `cannot grow: agent ${status.assignedPod} does not report the size of the volume; its version may be too old`;
}

/** Whether a volume has at least a size, as far as its agent has reported one. */
export function hasSize({ status }: DeepReadonly<SandboxVolume>, size: string | number): boolean {
  return isQuantity(status?.size) && compareQuantities(status.size, size) >= 0;
}

function decideDeletion(observation: VolumeObservation): VolumeStep {
  const { volume, agent, users, hasPool } = observation;
  const write = (message: string): VolumeStep => ({ kind: "write", status: volumeStatus(observation, "Deleting", message) });
  if (users.length > 0) return write(`in use by ${users.length === 1 ? "sandbox" : "sandboxes"} ${users.join(", ")}`);
  const { assignedPod } = volume.status ?? {};
  if (assignedPod === undefined) return { kind: "remove-finalizer" };
  if (agent.kind === "ready") return { kind: "delete" };
  if (agent.kind === "deleted" && !hasPool) return { kind: "remove-finalizer" };
  return write(`agent ${assignedPod}, which stores it, is not reporting`);
}
