/* A server of health and readiness probes, metrics and reconcile records. */
export {
  type Access,
  type AccessFilter,
  type AccessRequest,
  reviewedAccess,
} from "./probes/probe-access.ts";
export * from "./probes/probe-server.ts";
