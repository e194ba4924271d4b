import { formatQuantity, quantityToBytes } from "@keelson/api-machinery/quantity";
import { podRequests } from "@keelson/api-machinery/scheduling";
import { plannedContainers, type PodView } from "../pod/pod-view.ts";
import type { MetThreshold } from "./thresholds.ts";

/** What a Pod uses of the disk: bytes or files. */
export interface PodDiskUsage {
  /** Undefined if there are too many files to count them in time. */
  readonly total: number | undefined;
  /** Without volumes, by the name of the container. */
  readonly containers: ReadonlyMap<string, number>;
}

/** A Pod that may be evicted. */
export interface Candidate {
  readonly pod: PodView;
  readonly usage: PodDiskUsage;
}

const resource = "ephemeral-storage";

/**
 * Orders Pods as the kubelet evicts them (`rankDiskPressureFunc`): those that use more than they request first, then by priority, then by the
 * usage above the request. Pods whose files cannot be counted use the most.
 */
export function rankForEviction<T extends Candidate>(candidates: readonly T[], { signal }: MetThreshold): readonly T[] {
  return candidates
    .map((candidate) => {
      const excess = (candidate.usage.total ?? Number.POSITIVE_INFINITY) - requestOf(candidate.pod, signal);
      return { candidate, excess, priority: candidate.pod.spec.priority ?? 0 };
    })
    .sort(
      (a, b) =>
        Number(b.excess > 0) - Number(a.excess > 0) ||
        a.priority - b.priority ||
        (a.excess === b.excess ? 0 : b.excess - a.excess),
    )
    .map(({ candidate }) => candidate);
}

/** Why a Pod is evicted, in the kubelet's words (`evictionMessage`). */
export function evictionMessage({ pod, usage }: Candidate, { signal, threshold, free }: MetThreshold): string {
  const name = signal === "nodefs.available" ? resource : "inodes";
  const format = signal === "nodefs.available" ? formatBytes : String;
  const parts = [
    `The node was low on resource: ${name}. Threshold quantity: ${format(Math.floor(threshold))}, available: ${formatFree(signal, free)}. `,
  ];
  for (const { container } of plannedContainers(pod)) {
    const used = usage.containers.get(container.name);
    const request = container.resources?.requests?.[resource];
    const requested = signal === "nodefs.available" && request !== undefined ? quantityToBytes(request) : 0;
    if (used === undefined || used <= requested) continue;
    const shown = requested === 0 ? "0" : formatQuantity(request ?? 0);
    parts.push(
      `Container ${container.name} was using ${formatFree(signal, used)}, request is ${shown}, has larger consumption of ${name}. `,
    );
  }
  if (usage.total === undefined) parts.push("Pod has too many files to count its local ephemeral storage usage. ");
  return parts.join("");
}

/** Nothing can be requested of the number of files. */
function requestOf(pod: PodView, signal: MetThreshold["signal"]): number {
  if (signal !== "nodefs.available") return 0;
  return Number((podRequests(pod).get(resource) ?? 0n) / 1_000_000_000n);
}

const formatFree = (signal: MetThreshold["signal"], amount: number): string =>
  signal === "nodefs.available" ? `${Math.floor(amount / 1024)}Ki` : String(amount);

function formatBytes(bytes: number): string {
  return formatQuantity(bytes % 1024 === 0 ? `${bytes / 1024}Ki` : String(bytes));
}
