import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { blockRange, type PodAddressRange } from "@keelson/cluster";
import { textFlag, invalidFlag, type FlagValues } from "@keelson/operator/flags";
import { NodeError } from "./node-error.ts";

/** A block of Pod addresses. */
export interface PodBlock {
  readonly cidr: string;
  readonly range: PodAddressRange;
}

/** `--pod-cidr`. */
export const podCidrFlag = textFlag({
  name: "pod-cidr",
  value: "CIDR",
  description:
    "IPv4 block from which each Pod gets its own address, so that Pods can listen on the same port, such as 10.244.1.0/24; requires root (default: Pods share the address of this machine)",
});

/** The block of `--pod-cidr`. **Errors**: `UsageError`. */
export function readPodBlock(flags: FlagValues): PodBlock | undefined {
  const cidr = podCidrFlag.read(flags);
  if (cidr === undefined) return undefined;
  const range = blockRange(cidr);
  if (range === undefined) throw invalidFlag(podCidrFlag, cidr, "must be an IPv4 block of /16 to /30, such as 10.244.1.0/24");
  return { cidr, range };
}

/**
 * Makes the kernel accept every address of the block as one of this machine's. The route stays when the node stops, because its Pods keep
 * running; it is gone after a reboot.
 *
 * **Errors**: {@link NodeError} with what `ip` prints.
 */
export async function routeToThisMachine(cidr: string): Promise<void> {
  try {
    await promisify(execFile)("ip", ["route", "replace", "local", cidr, "dev", "lo"]);
  } catch (error) {
    const stderr = error instanceof Error && "stderr" in error ? String(error.stderr).trim() : "";
    const why = stderr !== "" ? stderr : error instanceof Error ? error.message : String(error);
    throw new NodeError(
      "NoRoute",
      `could not route ${cidr} to this machine: ${why}; run as root with iproute2, or omit --pod-cidr`,
    );
  }
}
