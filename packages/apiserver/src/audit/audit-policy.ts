/** How much of a request is recorded. */
export type AuditLevel = "None" | "Metadata" | "Request" | "RequestResponse";

/** When an event is recorded: long-running requests have `ResponseStarted` in addition, failures of the server `Panic`. */
export type AuditStage = "RequestReceived" | "ResponseStarted" | "ResponseComplete" | "Panic";

/** All levels, least detailed first. */
export const auditLevels: readonly AuditLevel[] = ["None", "Metadata", "Request", "RequestResponse"];

/** All stages in order. */
export const auditStages: readonly AuditStage[] = ["RequestReceived", "ResponseStarted", "ResponseComplete", "Panic"];

/** Resources of one API group. */
export interface GroupResources {
  /** `""` for the core group, `*` for all. */
  readonly group: string;
  // `pods`, `pods/log`, `pods/*`, `*/scale` or `*`.
  /** Resources and subresources, which may have wildcards. Empty: all of the group. */
  readonly resources: readonly string[];
  /** Empty: all names. */
  readonly resourceNames: readonly string[];
}

/** A rule of a policy. Empty lists match everything. */
export interface AuditRule {
  readonly level: AuditLevel;
  readonly users: readonly string[];
  readonly userGroups: readonly string[];
  readonly verbs: readonly string[];
  readonly resources: readonly GroupResources[];
  /** `""` matches requests without a namespace. */
  readonly namespaces: readonly string[];
  readonly nonResourceURLs: readonly string[];
  readonly omitStages: readonly AuditStage[];
  /** Undefined: the policy decides. */
  readonly omitManagedFields: boolean | undefined;
}

/** An audit policy (audit.k8s.io/v1 Policy). The first rule that matches a request decides; without one nothing is recorded. */
export interface AuditPolicy {
  readonly rules: readonly AuditRule[];
  /** In addition to the stages that a rule omits. */
  readonly omitStages: readonly AuditStage[];
  readonly omitManagedFields: boolean;
}
