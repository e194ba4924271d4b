import { quantityToBytes, quantityToMillis } from "@keelson/api-machinery/quantity";
import type { RunningLimits } from "@keelson/execution";
import type { Resources } from "../resources/pod-resources.ts";

/** The limits of a container's program; undefined if it has none. */
export function limitsOf(resources: Resources | undefined): RunningLimits | undefined {
  const { cpu, memory } = resources?.limits ?? {};
  if (cpu === undefined && memory === undefined) return undefined;
  return {
    ...(cpu === undefined ? {} : { cpuMillis: Math.max(quantityToMillis(cpu), 1) }),
    ...(memory === undefined ? {} : { memoryBytes: Math.max(quantityToBytes(memory), 1) }),
  };
}
