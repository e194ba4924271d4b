import { quantityToBytes, quantityToMillis } from "@keelson/api-machinery/quantity";
import type { RunningLimits } from "@keelson/execution";
import type { Resources } from "../resources/pod-resources.ts";

/** The smallest and the largest share of the CPU, and that of a whole CPU. */
const [minShares, maxShares, sharesPerCpu] = [2, 262_144, 1024];

/** The share of the CPU for a request in thousandths, as in the kubelet. */
export function cpuShares(millis: number): number {
  return Math.min(Math.max(Math.floor((millis * sharesPerCpu) / 1000), minShares), maxShares);
}

/** The limits of a container's program, and its share of the CPU by its request, or by its limit without a request. */
export function limitsOf(resources: Resources | undefined): RunningLimits & { readonly cpuShares: number } {
  const { cpu, memory } = resources?.limits ?? {};
  const request = resources?.requests?.["cpu"] ?? cpu;
  return {
    cpuShares: cpuShares(request === undefined ? 0 : quantityToMillis(request)),
    ...(cpu === undefined ? {} : { cpuMillis: Math.max(quantityToMillis(cpu), 1) }),
    ...(memory === undefined ? {} : { memoryBytes: Math.max(quantityToBytes(memory), 1) }),
  };
}
