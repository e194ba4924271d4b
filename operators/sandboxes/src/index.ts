export { agentPaths, type AgentPhase, type AgentSandbox, type AgentStatus, type SandboxStatus } from "./protocol/protocol.ts";
export * from "./api/names.ts";
export { type Phase, phases, Sandbox } from "./api/sandbox.ts";
export { SandboxPool } from "./api/sandbox-pool.ts";
export { SandboxVolume } from "./api/sandbox-volume.ts";
export { createFastPathClient, type FastPathClient } from "./fastpath/client.ts";
export { ConsistencyMode, FailurePolicy, FastPathService } from "@keelson/sandbox/protocol";
export { fastPathTokenFile, imagesFolder } from "./fastpath/fastpath-definition.ts";
export { sandboxes } from "./operator.ts";
