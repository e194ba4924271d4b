/** API group of the robots kinds. */
export const group = "robot.k8s4r.io";

/** API version of the robots kinds. */
export const version = "v1alpha1";

/** Finalizer of a Task, from its binding to a robot until the robot has removed the task. */
export const agentFinalizer = "robot.k8s4r.io/agent";

/** Annotation of a Robot: SHA-256 (hex) of the join token that it registered with. Written by the bridge. */
export const joinTokenAnnotation = "robot.k8s4r.io/join-token-sha256";

/** Annotation of a Job: highest revision whose canaries are promoted. `keelson robots promote` sets it. */
export const promotedRevisionAnnotation = "robot.k8s4r.io/promoted-revision";

/** Name of the Secret whose `data.token` approves a robot automatically. */
export const joinTokenSecret = "robot-join-token";

/** Name of the Secret with the certificate authority of the robots and the keys that sign messages to them. */
export const identitySecret = "robot-identity";

/** Name of the Secret with the one-time join tokens. It contains no secret that admits a robot. */
export const joinTokensSecret = "robot-join-tokens";

/** Annotation of a Robot that is held because two agents use its key: which ones. `keelson robots approve` removes it. */
export const heldAnnotation = "robot.k8s4r.io/held";

/** Annotation of a Task that was pinned to its robot before it was bound. The operator sets it with the robot. */
export const pinnedAnnotation = "robot.k8s4r.io/pinned";

/** Labels of Jobs, TaskGroups and Tasks. */
export const labels = {
  /** Name of the Job. */
  job: "job",
  /** Of a Job: name of the periodic or parameterized Job that it was created from. */
  parent: "robot.k8s4r.io/parent",
  /** Name of the TaskGroup. */
  taskGroup: "taskgroup",
  /** Index of the copy within the group, from 0. */
  taskIndex: "taskindex",
} as const;
