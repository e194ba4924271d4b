/** The messages and services of the sandboxes' protocol, generated from `operators/sandboxes/proto`. */
export * from "./generated/fastpath/v1/fastpath_pb.ts";
export * from "./generated/keelson/sandboxes/v1/files_pb.ts";
export * from "./generated/keelson/sandboxes/v1/lifecycle_pb.ts";
export * from "./generated/keelson/sandboxes/v1/ports_pb.ts";
export * from "./generated/keelson/sandboxes/v1/processes_pb.ts";
export * from "./generated/keelson/sandboxes/v1/streams_pb.ts";
export * from "./generated/keelson/sandboxes/v1/usage_pb.ts";
export * from "./generated/keelson/sandboxes/v1/volumes_pb.ts";
