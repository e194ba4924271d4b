import type { ControllerDefinition } from "@keelson/controller";
import { createAutoscaler } from "./autoscaling/autoscaler-controller.ts";
import { createDaemonSetController } from "./daemonset/daemonset-controller.ts";
import { deploymentController } from "./deployment/deployment-controller.ts";
import { disruptionController } from "./disruption/disruption-controller.ts";
import { jobController } from "./job/job-controller.ts";
import { createPodGarbageController, type PodGarbageOptions } from "./pod-gc/pod-gc.ts";
import { cronJobController } from "./cronjob/cronjob-controller.ts";
import { nodeTaintController } from "./node-taints/node-taints.ts";
import { createReplicationController } from "./replication-controller/replication-controller.ts";
import { createReplicaSetController } from "./replicaset/replicaset-controller.ts";
import { createScheduler } from "./scheduler/scheduler.ts";
import { mirroringController } from "./service/mirroring-controller.ts";
import { serviceController } from "./service/service-controller.ts";
import { createTaintEvictionController } from "./taint-eviction/taint-eviction.ts";
import { createStatefulSetController } from "./statefulset/statefulset-controller.ts";

/** Creates the controllers that turn workloads into Pods on nodes. They need nothing but the API server. */
export const createWorkloadControllers = (podGarbage: PodGarbageOptions = {}): readonly ControllerDefinition[] => [
  deploymentController,
  createReplicaSetController(),
  createReplicationController(),
  createDaemonSetController(),
  cronJobController,
  createStatefulSetController(),
  jobController,
  createAutoscaler(),
  serviceController,
  mirroringController,
  createScheduler(),
  createPodGarbageController(podGarbage),
  createTaintEvictionController(),
  nodeTaintController,
  disruptionController,
];
