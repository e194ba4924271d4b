/** API group of the family. */
export const group = "middleware.io";

/** Its version. */
export const version = "v1alpha1";

/** Where plugins are looked for after the App's own namespace. */
export const pluginNamespace = "middleware-system";

/** Annotations of Apps, Components and Groups. */
export const annotations = {
  /** On Apps: the tasks of the plan, as JSON. A mirror of `status.plan`, written by the controller. */
  tasks: "middleware.io/tasks",
  /** On Apps: counts what is written to `tasks`. */
  tasksRevision: "middleware.io/tasks-revision",
  /** On Apps, by people: `{"retryTaskIds": [...], "resetDependencies": false}`. Taken away once it is done. */
  retryControl: "middleware.io/retry-control",
  /** On Apps, by people: `{"cancelTaskIds": [...]}`. Taken away once it is done. */
  cancelControl: "middleware.io/cancel-control",
  /** On Apps: what came of the last retry-control and cancel-control. */
  controlResult: "middleware.io/control-result",
  /** On Apps: "true" while a change of spec waits for the plan to end. */
  pendingChange: "middleware.io/pending-change-detected",
  /** On Components and Groups: the token of the operation that is to stop. */
  cancelRequest: "middleware.io/cancel-request",
} as const;

/** Labels of what the family makes. */
export const labels = {
  app: "middleware.io/app",
  component: "middleware.io/component",
  group: "middleware.io/group",
  plugin: "middleware.io/plugin",
  pluginVersion: "middleware.io/plugin-version",
  /** On Pods: primary or replica, for Services. */
  role: "middleware.io/role",
} as const;

/** On Pods: hash of the template that it was made from. */
export const revisionAnnotation = "middleware.io/revision";

/** On the ConfigMap of a Pod: hash of the parameters in it. */
export const configHashAnnotation = "middleware.io/config-hash";

/** The Secret of an App: the token of its agents and the password of its programs. */
export const accessSecretName = (app: string): string => `${app}-access`;

/** The ConfigMap with an App's metadata. */
export const metadataName = (app: string): string => `${app}-metadata`;
