export { type Fleet, type FleetAgent, type AgentSpec } from "./agent/fleet.ts";
export { agentPaths, type AgentPhase, type AgentSandbox, type AgentStatus, type SandboxStatus } from "./agent/protocol.ts";
export * from "./api/names.ts";
export { type Phase, phases, Sandbox } from "./api/sandbox.ts";
export { SandboxPool } from "./api/sandbox-pool.ts";
export { FastPathService } from "./fastpath/generated/fastpath/v1/fastpath_pb.ts";
export { fastPathTokenFile } from "./fastpath-definition.ts";
export { sandboxes } from "./operator.ts";
