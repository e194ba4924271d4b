import { anyMap, choice, int32, int64 } from "@keelson/api-machinery/fields";
import { Type } from "typebox";

/*
 * Parts of kubeflow.org/v2beta1 that RhinoJobs share.
 */

const schedulingPolicy = Type.Object(
  {
    minAvailable: Type.Optional(
      int32("minMember of the PodGroup. Default: all workers and the launcher. Used with --gang-scheduling only."),
    ),
    queue: Type.Optional(
      Type.String({
        description:
          "Queue that admits the job: the name of an MPIQueue. Default: default. Ignored while no MPIQueue exists. With --gang-scheduling=volcano, its queue.",
      }),
    ),
    minResources: Type.Optional(
      anyMap("minResources of the PodGroup. Default: the Pods' requests. Used with --gang-scheduling only."),
    ),
    priorityClass: Type.Optional(
      Type.String({
        description:
          "PriorityClass of the job in its queue. Default: that of the launcher's Pod, otherwise of the workers' Pods.",
      }),
    ),
    scheduleTimeoutSeconds: Type.Optional(int32("scheduleTimeoutSeconds of the PodGroup of scheduler-plugins.")),
  },
  { description: "Scheduling of the job as a whole." },
);

/** How a job is run and cleaned up: RunPolicy of kubeflow.org/v2beta1. */
export const runPolicy = Type.Object(
  {
    cleanPodPolicy: Type.Optional(
      choice(
        ["All", "Running", "None"],
        "Pods to stop after the job's end. Running: those that do not end with the launcher; All: delete all Pods with their logs; None.",
      ),
    ),
    ttlSecondsAfterFinished: Type.Optional(
      int32("Seconds after the job finishes until it is deleted with its Pods and logs.", { minimum: 0 }),
    ),
    activeDeadlineSeconds: Type.Optional(
      int64("Seconds from startTime until the job must have ended, with all attempts.", { minimum: 0 }),
    ),
    backoffLimit: Type.Optional(
      int32("Number of further attempts after a failure. Each has a fresh launcher and fresh workers.", { minimum: 0 }),
    ),
    schedulingPolicy: Type.Optional(schedulingPolicy),
    suspend: Type.Optional(
      Type.Boolean({ description: "Whether to stop the job's Pods. A resumed job starts again with fresh Pods." }),
    ),
    managedBy: Type.Optional(
      choice(
        ["kubeflow.org/mpi-operator", "kueue.x-k8s.io/multikueue"],
        "Controller of the job. With kueue.x-k8s.io/multikueue, this controller ignores it.",
      ),
    ),
  },
  { description: "How the job is run and cleaned up, as in kubeflow.org/v2beta1." },
);

const replicaStatus = (description: string) =>
  Type.Optional(
    Type.Object(
      {
        active: Type.Optional(int32("Number of running Pods.")),
        succeeded: Type.Optional(int32("Number of Pods that succeeded.")),
        failed: Type.Optional(int32("Number of Pods that failed.")),
        selector: Type.Optional(Type.String({ description: "Label selector of the Pods." })),
      },
      { description },
    ),
  );

/** Numbers of Pods by type: ReplicaStatus of kubeflow.org/v2beta1. */
export const replicaStatuses = Type.Object(
  {
    Launcher: replicaStatus("The launcher's Pods of this attempt."),
    Worker: replicaStatus("The workers' Pods of this attempt."),
  },
  { description: "Numbers of Pods by type." },
);
