export * from "./agent2.generated.ts";
export { protocolVersion, unresponsive } from "./tool-server.ts";
