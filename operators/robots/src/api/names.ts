/** API group of the family. */
export const group = "robot.k8s4r.io";

/** Its version. */
export const version = "v1alpha1";

/** On Tasks from their binding to a robot until nothing of them is left there. */
export const agentFinalizer = "robot.k8s4r.io/agent";

/** On Robots: SHA-256 (hex) of the join token that the robot registered with. Written by the bridge. */
export const joinTokenAnnotation = "robot.k8s4r.io/join-token-sha256";

/** The Secret whose `data.token` a robot has to know to be approved without anybody's doing. */
export const joinTokenSecret = "robot-join-token";

/** Labels on TaskGroups and Tasks. */
export const labels = {
  /** Name of the Job. */
  job: "job",
  /** Name of the TaskGroup. */
  taskGroup: "taskgroup",
  /** Which copy of the group's tasks, from 0. */
  taskIndex: "taskindex",
} as const;
