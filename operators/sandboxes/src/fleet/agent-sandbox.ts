import type { DeepReadonly } from "@keelson/api-machinery";
import type { Sandbox } from "../api/sandbox.ts";
import { expiryOf } from "../controllers/lifetime.ts";
import type { NetworkRule } from "../network/network-policy.ts";
import type { VolumeMount } from "../volumes/volume-mount.ts";
import type { AgentSandbox } from "../protocol/protocol.ts";

/**
 * The create request for an agent. The fast path and the controller must build identical requests, because the agent treats an identical
 * request as a repetition.
 */
export function agentSandbox(
  identity: Pick<AgentSandbox, "sandboxId" | "claimUid" | "claimName" | "namespace">,
  spec: DeepReadonly<Sandbox["spec"]>,
  env: Readonly<Record<string, string>>,
  volumes: readonly VolumeMount[] = [],
): AgentSandbox {
  const { cpu, memory } = spec.resources?.limits ?? {};
  const expiresAtMs = expiryOf(spec);
  const { network = "none", networkAllow = [] } = spec;
  return {
    ...identity,
    image: spec.image,
    command: spec.command ?? [],
    args: spec.args ?? [],
    env,
    workingDir: spec.workingDir ?? "",
    ports: spec.exposedPorts ?? [],
    ...(network !== "none" && { network }),
    ...(networkAllow.length > 0 && { networkAllow: structuredClone(networkAllow) as NetworkRule[] }),
    ...(volumes.length > 0 && { volumes }),
    ...(cpu !== undefined && { cpu: String(cpu) }),
    ...(memory !== undefined && { memory: String(memory) }),
    ...(expiresAtMs !== undefined && { expiresAtMs }),
  };
}
