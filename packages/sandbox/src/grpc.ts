export { GrpcSessions } from "./grpc-sessions.ts";
