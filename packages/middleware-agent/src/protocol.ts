export * from "./agent2.generated.ts";
export { AgentSessions } from "./tls/agent-sessions.ts";
export { protocolVersion, unresponsive } from "./tool-server.ts";
