import type { DeepReadonly } from "@keelson/api-machinery";
import { isQuantity, quantityToBytes, quantityToMillis } from "@keelson/api-machinery/quantity";
import type { Robot } from "../api/robot.ts";
import type { TaskResources } from "../api/task-resources.ts";

/** Resources that a task requests. */
export interface ResourceRequest {
  /** CPU cores. */
  readonly cpu: number;
  /** CPU in MHz, in addition to `cpu`. */
  readonly cpuMhz: number;
  readonly memoryBytes: number;
  readonly diskBytes: number;
}

const bytesPerMegabyte = 1024 * 1024;

/** Clock rate of a robot that does not report one. */
const defaultMhz = 1000;

/**
 * Parses a request. A bare number, quoted or not, has Nomad's unit (cpu in MHz, memory in MiB), because the manifests of K8s4r use it. A
 * quantity with a unit means the same as in Kubernetes. A malformed quantity requests nothing.
 */
export function parseResourceRequest(resources: DeepReadonly<TaskResources> | undefined): ResourceRequest {
  const cpu = bareNumber(resources?.cpu);
  return {
    cpu: cpu === undefined && isQuantity(resources?.cpu) ? quantityToMillis(resources.cpu) / 1000 : 0,
    cpuMhz: cpu ?? 0,
    memoryBytes: bytesOf(resources?.memory),
    diskBytes: bytesOf(resources?.disk),
  };
}

function bytesOf(quantity: unknown): number {
  const megabytes = bareNumber(quantity);
  if (megabytes !== undefined) return megabytes * bytesPerMegabyte;
  return isQuantity(quantity) ? quantityToBytes(quantity) : 0;
}

/** Disk of a robot in bytes. An original agent reports all file systems, without saying which one tasks use: the largest one counts. */
export function diskOf({ status }: DeepReadonly<Robot>): number | undefined {
  const totals = status?.deviceInfo?.disks?.flatMap(({ total }) => (total === undefined ? [] : [total])) ?? [];
  return totals.length === 0 ? undefined : Math.max(...totals);
}

/** The number if a quantity has no unit; otherwise undefined. */
export function bareNumber(quantity: unknown): number | undefined {
  if (typeof quantity === "number") return quantity >= 0 ? quantity : undefined;
  return typeof quantity === "string" && /^\d{1,15}(\.\d{1,9})?$/.test(quantity) ? Number(quantity) : undefined;
}

/** Cores that a request needs on a robot whose cores have this clock rate. */
export function coresOf(request: Pick<ResourceRequest, "cpu" | "cpuMhz">, mhz: number | undefined): number {
  return request.cpu + request.cpuMhz / (mhz !== undefined && mhz > 0 ? mhz : defaultMhz);
}

/** Cores for a message, such as `500m` or `2`. */
export function formatCores(cores: number): string {
  const millis = Math.round(cores * 1000);
  return millis % 1000 === 0 ? String(millis / 1000) : `${millis}m`;
}

/** Bytes for a message, such as `512Mi`. */
export function formatBytes(bytes: number): string {
  for (const [unit, size] of [
    ["Gi", 1024 ** 3],
    ["Mi", 1024 ** 2],
    ["Ki", 1024],
  ] as const) {
    if (Math.abs(bytes) >= size) return `${Math.round((bytes / size) * 10) / 10}${unit}`;
  }
  return String(bytes);
}
