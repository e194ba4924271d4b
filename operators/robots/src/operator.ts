import type { Operator } from "@keelson/operator";
import { startAgent } from "./agent/agent.ts";
import { Job } from "./api/job.ts";
import { group, joinTokenSecret } from "./api/names.ts";
import { Robot } from "./api/robot.ts";
import { Task } from "./api/task.ts";
import { TaskGroup } from "./api/taskgroup.ts";
import { createAgentCommand } from "./commands/agent.ts";
import { jobController } from "./controllers/job.ts";
import { createRobotController } from "./controllers/robot.ts";
import { createTaskController } from "./controllers/task.ts";
import { taskGroupController } from "./controllers/taskgroup.ts";
import { mqttServer } from "./mqtt-server.ts";

/** The robots family: Jobs of programs that run on robots, over MQTT. */
export const robots: Operator = {
  name: "robots",
  description: "run jobs on fleets of robots over MQTT",
  resources: [Job, TaskGroup, Task, Robot],
  rules: [
    { apiGroups: [group], resources: ["jobs"], verbs: ["get", "list", "watch"] },
    { apiGroups: [group], resources: ["taskgroups"], verbs: ["get", "list", "watch", "create", "patch"] },
    { apiGroups: [group], resources: ["tasks"], verbs: ["get", "list", "watch", "create", "patch", "delete"] },
    { apiGroups: [group], resources: ["robots"], verbs: ["get", "list", "watch", "create", "patch"] },
    { apiGroups: [group], resources: ["jobs/status", "taskgroups/status", "tasks/status", "robots/status"], verbs: ["patch"] },
    // Owner references that hold back a foreground deletion need this where that admission check is on.
    { apiGroups: [group], resources: ["jobs/finalizers", "taskgroups/finalizers"], verbs: ["update"] },
    { apiGroups: [""], resources: ["secrets"], resourceNames: [joinTokenSecret], verbs: ["get", "patch"] },
    // Kubernetes cannot limit the making of an object to a name.
    { apiGroups: [""], resources: ["secrets"], verbs: ["create"] },
  ],
  controllers: () => [jobController, taskGroupController, createTaskController(), createRobotController()],
  servers: [mqttServer],
  commands: [createAgentCommand(startAgent)],
};
