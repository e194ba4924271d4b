import {
  addQuantities,
  compareQuantities,
  formatQuantity,
  parseQuantity,
  type Quantity,
  type QuantityLike,
  quantityToBytes,
} from "@keelson/api-machinery/quantity";
import { plannedContainers, type PodView } from "../pod/pod-view.ts";

const resource = "ephemeral-storage";

/** A limit of space on the disk. */
interface SpaceLimit {
  readonly bytes: number;
  /** As messages show it. */
  readonly text: string;
}

interface NamedLimit extends SpaceLimit {
  readonly name: string;
}

/** The limits of a Pod on the node's disk. */
export interface StorageLimits {
  readonly volumes: readonly NamedLimit[];
  /** The sum of the containers' limits. */
  readonly pod?: SpaceLimit;
  readonly containers: readonly NamedLimit[];
}

/** Bytes on the disk. */
export interface StorageUsage {
  /** By the name of the volume. */
  readonly volumes: ReadonlyMap<string, number>;
  /** Logs and writable root, by the name of the container. */
  readonly containers: ReadonlyMap<string, number>;
}

/** Whether a volume's files are on the node's disk and count for its Pod. */
export function isLocalVolume({ spec }: PodView, name: string): boolean {
  const volume = spec.volumes?.find((each) => each.name === name);
  if (volume?.emptyDir !== undefined) return volume.emptyDir.medium !== "Memory";
  return volume?.configMap !== undefined || volume?.downwardAPI !== undefined;
}

/** The limits of a Pod; undefined if it has none, so that its usage need not be known. */
export function storageLimits(pod: PodView): StorageLimits | undefined {
  const volumes = (pod.spec.volumes ?? []).flatMap(({ name, emptyDir }): NamedLimit[] => {
    const limit = emptyDir?.medium === "Memory" ? undefined : spaceLimit(emptyDir?.sizeLimit);
    return limit === undefined ? [] : [{ name, ...limit }];
  });
  const containers = plannedContainers(pod).flatMap(({ container }): NamedLimit[] => {
    const limit = spaceLimit(container.resources?.limits?.[resource]);
    return limit === undefined ? [] : [{ name: container.name, ...limit }];
  });
  if (volumes.length === 0 && containers.length === 0) return undefined;
  const total = podLimit(pod);
  return { volumes, containers, ...(total !== undefined && { pod: total }) };
}

/** Why a Pod is evicted, in the kubelet's words (`pkg/kubelet/eviction/eviction_manager.go`); undefined if it stays within its limits. */
export function storageExcess(limits: StorageLimits, usage: StorageUsage): string | undefined {
  for (const { name, bytes, text } of limits.volumes) {
    if ((usage.volumes.get(name) ?? 0) > bytes) {
      return `Usage of EmptyDir volume ${JSON.stringify(name)} exceeds the limit ${JSON.stringify(text)}. `;
    }
  }
  const total = [...usage.volumes.values(), ...usage.containers.values()].reduce((sum, bytes) => sum + bytes, 0);
  if (limits.pod !== undefined && total > limits.pod.bytes) {
    return `Pod ephemeral local storage usage exceeds the total limit of containers ${limits.pod.text}. `;
  }
  for (const { name, bytes, text } of limits.containers) {
    if ((usage.containers.get(name) ?? 0) > bytes) {
      return `Container ${name} exceeded its local ephemeral storage limit ${JSON.stringify(text)}. `;
    }
  }
  return undefined;
}

/** A limit of 0 is none. */
function spaceLimit(quantity: QuantityLike | undefined): SpaceLimit | undefined {
  if (quantity === undefined) return undefined;
  const bytes = quantityToBytes(quantity);
  return bytes > 0 ? { bytes, text: formatQuantity(quantity) } : undefined;
}

/** As for requests: the containers and sidecars together, or an init container with the sidecars before it, whichever is larger. */
function podLimit(pod: PodView): SpaceLimit | undefined {
  let [total, sidecars, peak] = [none, none, none] as [Quantity, Quantity, Quantity];
  for (const { role, container } of plannedContainers(pod)) {
    const limit = container.resources?.limits?.[resource];
    if (limit === undefined) continue;
    if (role === "main" || role === "sidecar") total = sum(total, limit);
    if (role === "sidecar") sidecars = sum(sidecars, limit);
    const together = role === "init" ? sum(sidecars, limit) : none;
    if (compareQuantities(together, peak) > 0) peak = together;
  }
  return spaceLimit(compareQuantities(peak, total) > 0 ? peak : total);
}

const none = parseQuantity("0");

/** A sum in the format of its first part, as in Kubernetes. */
function sum(first: Quantity, second: QuantityLike): Quantity {
  return first.nanos === 0n ? parseQuantity(second) : addQuantities(first, second);
}
