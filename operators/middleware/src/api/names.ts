/** API group of the middleware kinds. */
export const group = "middleware.io";

/** API version of the middleware kinds. */
export const version = "v1alpha1";

/** Namespace of shared plugins. Plugins in the App's own namespace take precedence. */
export const pluginNamespace = "middleware-system";

/** Finalizer of Apps: their Pods are stopped in order, and their volumes handled by `spec.deletionPolicy`. */
export const appFinalizer = `${group}/stop-in-order`;

/** On Pods with TLS: its mode. */
export const tlsAnnotation = `${group}/tls`;

/** Annotations of Apps, Components and Groups. */
export const annotations = {
  /** On Apps: the tasks of the plan as JSON, mirrored from `status.plan` by the controller. */
  tasks: "middleware.io/tasks",
  /** On Apps: incremented with every write of `tasks`. */
  tasksRevision: "middleware.io/tasks-revision",
  /** On Apps, set by users: `{"retryTaskIds": [...], "resetDependencies": false}`. Removed when processed. */
  retryControl: "middleware.io/retry-control",
  /** On Apps, set by users: `{"cancelTaskIds": [...]}`. Removed when processed. */
  cancelControl: "middleware.io/cancel-control",
  /** On Apps: results of the last retry-control, cancel-control and approve. */
  controlResult: "middleware.io/control-result",
  /** On Apps: "true" while a change of the spec is waiting for the plan to finish. */
  pendingChange: "middleware.io/pending-change-detected",
  /** On Groups, set by users: `{"id": "...", "to": "POD"}`. Requests a switchover; without `to`, any replica in sync is chosen. */
  switchoverControl: "middleware.io/switchover-control",
  /**
   * On Groups, set by users: `{"id": "...", "pod": "POD", "rebuild": true}`. Restarts all Pods one by one, or one Pod; with `rebuild`
   * a replica discards its data and copies that of the primary.
   */
  restartControl: "middleware.io/restart-control",
  /**
   * On Groups, set by users: the epoch of `status.failover`. That failover promotes a replica although writes that were acknowledged may be
   * on Pods that do not respond, and loses them.
   */
  acceptDataLoss: "middleware.io/accept-data-loss",
  /** On Apps created by a Restore: the UID of the Restore. */
  restoredBy: "middleware.io/restored-by",
  /** On Apps, set by users: "true" starts no more tasks, and running ones stop before their next disruption. */
  paused: "middleware.io/paused",
  /** On Apps, set by users: `{"id": "...", "authority": true}`. Rotates the certificates, or with `authority` their authority too. */
  certificateControl: "middleware.io/certificate-control",
  /** On Apps, set by users: the id of the plan to approve. Removed when processed. */
  approve: "middleware.io/approve",
  /** On Components and Groups: the token of the operation to pause. */
  pauseRequest: "middleware.io/pause-request",
  /** On Components and Groups: the token of the operation to cancel. */
  cancelRequest: "middleware.io/cancel-request",
} as const;

/** Labels of managed objects. */
export const labels = {
  app: "middleware.io/app",
  component: "middleware.io/component",
  group: "middleware.io/group",
  plugin: "middleware.io/plugin",
  pluginVersion: "middleware.io/plugin-version",
  /** On Backups: the BackupSchedule that created them. */
  schedule: "middleware.io/backup-schedule",
  /** On Backups: the UID of that BackupSchedule. Another one of the same name does not delete them. */
  scheduleUid: "middleware.io/backup-schedule-uid",
  /** On Pods that transfer data: the kind and name of the Backup or Restore, in lower case. */
  transfer: "middleware.io/transfer",
  /** On Pods: the role that Services select. */
  role: "middleware.io/role",
} as const;

/** On Pods: hash of the rendered Pod template. */
export const revisionAnnotation = "middleware.io/revision";

/** On Pods without an agent: the version of the program. */
export const versionAnnotation = "middleware.io/version";

/** On the ConfigMap of a Pod: hash of its parameters. */
export const configHashAnnotation = "middleware.io/config-hash";

/** Name of an App's Secret with the token of its agents and the password of its programs. */
export const accessSecretName = (app: string): string => `${app}-access`;

/** Name of the Secret with the certificate of an App's programs, unless `spec.tls.secretName` is set. */
export const certificateSecretName = (app: string): string => `${app}-tls`;

/** Name of the ConfigMap with the authorities that clients of an App trust, and of the Secret with those of the operator. */
export const authorityName = (app: string): string => `${app}-ca`;

/** Key of the ConfigMap with the authorities. */
export const authorityKey = "ca.crt";

/** Keys of the access Secret for the TLS of agents. */
export const agentKeys = {
  /** `prefer` or `require`: how controllers connect to agents. Missing: without TLS. */
  mode: "agentTls",
  authorities: "agent-ca.crt",
  certificate: "agent.crt",
  key: "agent.key",
} as const;

/** Name of the ConfigMap with an App's metadata. */
export const metadataName = (app: string): string => `${app}-metadata`;

/** Name of the Secret of a user of an App without one of its own. */
export const userSecretName = (app: string, user: string): string => `${app}-user-${user}`;

/** Keys of Secrets with a password. */
export const passwordKeys = {
  /** Login of the published password, for programs with one password per login. Written by the controller. */
  login: "username",
  /** The published password. */
  current: "password",
  /** A password that is published as soon as all Pods accept it. Set by users who rotate it. */
  next: "nextPassword",
} as const;

/** Keys of the access Secret with the token of the agents. */
export const tokenKeys = {
  current: "agentToken",
  /** A token that replaces it as soon as all Pods accept it. Set by users who rotate it. */
  next: "nextAgentToken",
  /** Which tokens the agents accept, as hashes. Written by the controller. */
  state: "tokens.json",
} as const;

/** Key of the access Secret: which passwords the programs accept, as hashes. Written by the controller. */
export const credentialsKey = "credentials.json";
