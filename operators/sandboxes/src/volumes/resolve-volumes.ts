import type { DeepReadonly } from "@keelson/api-machinery";
import type { Cache } from "@keelson/controller";
import type { Sandbox } from "../api/sandbox.ts";
import { SandboxVolume } from "../api/sandbox-volume.ts";
import type { VolumeMount } from "./volume-mount.ts";

/** The volumes of a Sandbox: the agent that has them, or why it cannot start yet. */
export type ResolvedVolumes =
  | {
      readonly kind: "ready" /** Undefined without volumes. */;
      readonly agent: string | undefined;
      readonly mounts: readonly VolumeMount[];
    }
  /** `isMissing`: it cannot start until a volume is created or changed. */
  | { readonly kind: "problem"; readonly message: string; readonly isMissing: boolean };

const problem = (message: string, isMissing: boolean): ResolvedVolumes => ({ kind: "problem", message, isMissing });

/** Finds the volumes of a Sandbox among those of its namespace. */
export function resolveVolumes(
  { poolRef, volumes = [] }: DeepReadonly<Sandbox["spec"]>,
  namespace: string,
  find: (name: string) => DeepReadonly<SandboxVolume> | undefined,
): ResolvedVolumes {
  let agent: string | undefined;
  const mounts: VolumeMount[] = [];
  for (const [index, reference] of volumes.entries()) {
    const { name } = reference;
    const field = `volumes[${index}].name`;
    const volume = find(name);
    if (volume === undefined)
      return problem(
        `${field}: SandboxVolume ${namespace}/${name} not found; create it: keelson sandbox volume create ${name}`,
        true,
      );
    if (volume.spec.poolRef !== poolRef)
      return problem(`${field}: SandboxVolume ${name} belongs to pool ${volume.spec.poolRef}, not ${poolRef}`, true);
    if (volume.metadata.deletionTimestamp !== undefined)
      return problem(`${field}: SandboxVolume ${name} is being deleted`, true);
    const { assignedPod, createdTime, phase, message = "" } = volume.status ?? {};
    if (assignedPod === undefined || createdTime === undefined || phase === "Lost" || phase === "Failed")
      return problem(`SandboxVolume ${name} is not ready${message === "" ? "" : `: ${message}`}`, false);
    if (agent !== undefined && agent !== assignedPod)
      return problem(`${field}: SandboxVolume ${name} is on agent ${assignedPod}, the volumes before it on ${agent}`, true);
    agent = assignedPod;
    // A repeated create is recognized by its text.
    const { mountPath, readOnly } = reference;
    mounts.push({ name, mountPath, ...(readOnly === true && { readOnly }), volumeId: volume.metadata.uid ?? "" });
  }
  return { kind: "ready", agent, mounts };
}

/** {@link resolveVolumes} with the volumes of a cache. */
export const cachedVolumes = (spec: DeepReadonly<Sandbox["spec"]>, namespace: string, cache: Cache): ResolvedVolumes =>
  resolveVolumes(spec, namespace, (name) => cache.get(SandboxVolume, { namespace, name }));
