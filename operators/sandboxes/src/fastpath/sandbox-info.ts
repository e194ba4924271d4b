import { create } from "@bufbuild/protobuf";
import type { DeepReadonly } from "@keelson/api-machinery";
import { type SandboxInfo, SandboxInfoSchema } from "@keelson/sandbox/protocol";
import type { Sandbox } from "../api/sandbox.ts";
import { lifetimeEnd } from "../controllers/lifetime.ts";
import { fastPathAllocation } from "../controllers/instance.ts";

/** A Sandbox in the fast path's format. */
export function sandboxInfo(sandbox: DeepReadonly<Sandbox>): SandboxInfo {
  const { metadata, spec, status } = sandbox;
  const place = status?.phase === undefined ? fastPathAllocation(sandbox) : undefined;
  return create(SandboxInfoSchema, {
    sandboxId: status?.sandboxID ?? place?.sandboxId ?? "",
    phase: status?.phase ?? (place === undefined ? "Pending" : "Creating"),
    agentPod: status?.assignedPod ?? place?.pod ?? "",
    endpoints: [...(status?.endpoints ?? [])],
    createdAt: BigInt(Math.floor(Date.parse(metadata.creationTimestamp ?? "1970-01-01T00:00:00Z") / 1000)),
    image: spec.image,
    poolRef: spec.poolRef,
    sandboxName: metadata.name ?? "",
    deniedFlows: BigInt(status?.runtime?.deniedFlows ?? 0),
    deniedDestinations: [...(status?.runtime?.deniedDestinations ?? [])],
    message: status?.message ?? "",
    expireTimeSeconds: BigInt(Math.floor((lifetimeEnd(sandbox) ?? 0) / 1000)),
  });
}
