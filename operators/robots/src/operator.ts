import { accessReviewRules } from "@keelson/controller/access";
import type { Operator } from "@keelson/operator";
import { agentCommand } from "./agent-command.ts";
import { Job } from "./api/job.ts";
import { group, identitySecret, joinTokenSecret, joinTokensSecret } from "./api/names.ts";
import { Robot } from "./api/robot.ts";
import { Task } from "./api/task.ts";
import { TaskGroup } from "./api/taskgroup.ts";
import { TaskSignal } from "./api/task-signal.ts";
import { approveCommand, revokeCommand } from "./commands/approve.ts";
import { caCommand } from "./commands/ca.ts";
import { cordonCommand, drainCommand, uncordonCommand } from "./commands/cordon.ts";
import { execCommand } from "./commands/exec/exec.ts";
import { explainCommand } from "./commands/explain.ts";
import { getCommand } from "./commands/get.ts";
import { listCommand } from "./commands/list.ts";
import { logsCommand } from "./commands/exec/logs.ts";
import { dispatchCommand } from "./commands/dispatch.ts";
import { mosquittoConfigCommand } from "./commands/broker/mosquitto-config.ts";
import { planCommand } from "./commands/plan.ts";
import { historyCommand, pauseCommand, promoteCommand, resumeCommand, rollbackCommand } from "./commands/rollout.ts";
import { signalCommand } from "./commands/exec/signal.ts";
import { simulateCommand } from "./commands/simulate.ts";
import { stopCommand } from "./commands/stop.ts";
import { topCommand } from "./commands/top.ts";
import { tokenCommand } from "./commands/token.ts";
import { jobController } from "./controllers/jobs/job.ts";
import { createRobotController } from "./controllers/robots/robot.ts";
import { createTaskController } from "./controllers/tasks/task.ts";
import { taskSignalController } from "./controllers/signals/task-signal.ts";
import { taskGroupController } from "./controllers/groups/taskgroup.ts";
import { robotsMonitoring } from "./monitoring/robots-monitoring.ts";
import { mqttServer } from "./mqtt-server.ts";

/** The robots family: Jobs whose tasks run as programs on robots, over MQTT. */
export const robots: Operator = {
  name: "robots",
  description: "run jobs on fleets of robots over MQTT",
  resources: [Job, TaskGroup, Task, Robot, TaskSignal],
  rules: [
    { apiGroups: [group], resources: ["jobs"], verbs: ["get", "list", "watch", "create", "patch", "delete"] },
    { apiGroups: [group], resources: ["taskgroups"], verbs: ["get", "list", "watch", "create", "patch", "delete"] },
    { apiGroups: [group], resources: ["tasks"], verbs: ["get", "list", "watch", "create", "patch", "delete"] },
    { apiGroups: [group], resources: ["robots"], verbs: ["get", "list", "watch", "create", "patch"] },
    { apiGroups: [group], resources: ["tasksignals"], verbs: ["get", "list", "watch", "delete"] },
    {
      apiGroups: [group],
      resources: ["jobs/status", "taskgroups/status", "tasks/status", "robots/status", "tasksignals/status"],
      verbs: ["patch"],
    },
    // Required for blockOwnerDeletion if the admission plugin OwnerReferencesPermissionEnforcement is enabled.
    { apiGroups: [group], resources: ["jobs/finalizers", "taskgroups/finalizers"], verbs: ["update"] },
    // Revisions of Jobs.
    { apiGroups: ["apps"], resources: ["controllerrevisions"], verbs: ["get", "list", "watch", "create", "delete"] },
    {
      apiGroups: [""],
      resources: ["secrets"],
      resourceNames: [joinTokenSecret, identitySecret, joinTokensSecret],
      verbs: ["get", "patch"],
    },
    // Follows the certificate authority.
    { apiGroups: [""], resources: ["secrets"], resourceNames: [identitySecret], verbs: ["list", "watch"] },
    // Authenticates and authorizes users of keelson robots exec.
    ...accessReviewRules,
    // RBAC cannot restrict create to a resource name.
    { apiGroups: [""], resources: ["secrets"], verbs: ["create"] },
  ],
  userRules: {
    view: [{ apiGroups: [group], resources: ["tasks/log"], verbs: ["get"] }],
    edit: [{ apiGroups: [group], resources: ["tasks/exec"], verbs: ["create"] }],
  },
  controllers: () => [
    jobController,
    taskGroupController,
    createTaskController(),
    createRobotController(),
    taskSignalController,
  ],
  servers: [mqttServer],
  commands: [
    agentCommand,
    listCommand,
    getCommand,
    topCommand,
    explainCommand,
    cordonCommand,
    uncordonCommand,
    drainCommand,
    tokenCommand,
    approveCommand,
    revokeCommand,
    caCommand,
    mosquittoConfigCommand,
    dispatchCommand,
    stopCommand,
    logsCommand,
    execCommand,
    signalCommand,
    planCommand,
    historyCommand,
    rollbackCommand,
    promoteCommand,
    pauseCommand,
    resumeCommand,
    simulateCommand,
  ],
  listeners: [
    {
      name: "MQTT broker",
      address: "`127.0.0.1:1883` (`--mqtt-bind-address`, `--mqtt-port`); none with `--mqtt-url`",
      authentication:
        "TLS 1.3 with a certificate per robot, after a one-time join token. On the same port without TLS (unless `--mqtt-require-tls`), for robots that have not joined with a key: the shared join token for a first registration, then a credential per robot. A new credential for the bridge at each start",
      permissions: "a robot: its own topics; a robot that joins: its join request",
    },
    {
      name: "Server of `keelson robots exec` and `logs`",
      address: "a free port of `127.0.0.1` (`--exec-bind-address`, `--exec-port`), with TLS beyond loopback",
      authentication:
        "on loopback: the token in `DIR/robots/exec-access.json`, new at each start; over TLS: bearer tokens of the cluster",
      permissions:
        "commands alongside the programs of running tasks, and the output of tasks: with the token, of all tasks; users of the cluster: RBAC `create` on `tasks/exec`, `get` on `tasks/log`",
    },
  ],
  monitoring: robotsMonitoring,
  deployment: {
    ports: [{ name: "mqtt", port: 1883, bindAddressFlag: "mqtt-bind-address", portFlag: "mqtt-port" }],
    settings: [
      { name: "namespace", flag: "robots-namespace" },
      { name: "allowV1Agents", flag: "allow-v1-agents" },
    ],
    singleReplicaReason: "the embedded MQTT broker runs on the leader, which a Service cannot select",
  },
};
