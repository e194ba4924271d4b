import type { DeepReadonly } from "@keelson/api-machinery";
import type { DeviceInfo } from "../api/robot.ts";
import type { Task } from "../api/task.ts";
import type { SignedTrustBundle } from "../identity/authority/trust-bundle.ts";

/*
 * MQTT topics and payloads. They are K8s4r's. Fields marked "added" are ours and may be absent in both directions, so that an
 * original agent works with this bridge and this agent with an original server.
 */

/** Agent to server, on `k8s4r/register` (QoS 1) and, every heartbeat interval, on `k8s4r/heartbeat`. */
export interface RegisterMessage {
  readonly robotId: string;
  readonly token: string;
  readonly deviceInfo?: DeviceInfo;
  /** Added: `spec.labels` of the Robot if this registration creates it. */
  readonly labels?: Readonly<Record<string, string>>;
  /** Added: changes when the machine reboots. */
  readonly bootId?: string;
  /** Added: SHA-256 (hex) of the agent's own credential, which the robot is bound to when it joins. */
  readonly credentialSha256?: string;
  /** Added: drivers that the agent allows. */
  readonly drivers?: readonly string[];
  /** Added: changes with every start of the agent. It tells two agents with the same id apart. */
  readonly instanceId?: string;
  /** Added: optional features of the agent, such as {@link leasesFeature}. */
  readonly features?: readonly string[];
  /** Added: echoed in the answer, so that a robot with a key can tell a fresh answer from a replayed one. */
  readonly nonce?: string;
  /** Added: tasks that the agent has, so that the bridge can send missing ones and remove unwanted ones. */
  readonly tasks?: readonly { readonly taskUid: string; readonly attempt: number }[];
}

/** Server to agent, on `k8s4r/robots/{id}/response` (QoS 1). */
export interface ResponseMessage {
  readonly success: boolean;
  readonly message: string;
  readonly robotId?: string;
  /** Added: the robot is bound to the agent's credential; connect with it from now on. */
  readonly isCredentialBound?: boolean;
  /** Added, to robots with a key: the nonce of the registration, the server's time in milliseconds, and the keys that sign messages. */
  readonly nonce?: string;
  readonly time?: number;
  readonly trust?: SignedTrustBundle;
  /** Added: `spec.labels` of the Robot, for templates. */
  readonly labels?: Readonly<Record<string, string>>;
  /** Added: what an operator of the robot must know, such as another agent with the same id. */
  readonly warning?: string;
}

/** Server to agent, on `k8s4r/robots/{id}/tasks/dispatch` (QoS 1). */
export interface DispatchMessage {
  readonly action: "create" | "delete";
  /** The whole Task. For `delete`, `metadata.uid` and `status.attempt` are enough. */
  readonly task: DeepReadonly<Task>;
}

/** Agent to server, on `k8s4r/robots/{id}/tasks/{uid}/status` (QoS 1). */
export interface StatusMessage {
  readonly taskUid: string;
  readonly robotName: string;
  /**
   * `dispatching` (added): the robot has accepted the task and does not run it yet. `deleted` (added) confirms a delete: the robot has
   * removed the task.
   */
  readonly state: "dispatching" | "running" | "completed" | "failed" | "deleted";
  readonly exitCode?: number;
  readonly message: string;
  readonly event:
    | "Assigned"
    | "Downloading"
    | "Downloaded"
    | "DownloadFailed"
    | "Starting"
    | "Started"
    /** Added, with `running`: the program ended, and the robot restarts it. */
    | "Restarting"
    /** Added, with `running`: what the health checks of the program found. */
    | "Healthy"
    | "Unhealthy"
    | "StartFailed"
    | "Completed"
    | "Failed"
    | "Timeout"
    | "Deleted";
  /** RFC 3339, by the robot's clock. Informational: `attempt` and `seq` define the order. */
  readonly updatedAt: string;
  /** Added: the attempt that this is about (`status.attempt` of the dispatched Task). */
  readonly attempt?: number;
  /** Added: increases with every status of an attempt. A terminal state is its last. */
  readonly seq?: number;
  /** Added: RFC 3339, when the program started and ended. */
  readonly startedAt?: string;
  readonly finishedAt?: string;
  /** Added, with `running`: whether the health checks of the program pass. Absent: unchanged, or unknown after a start. */
  readonly health?: "passing" | "failing";
  /** Added, with `failed`: the robot stopped the program because its lease expired. */
  readonly leaseExpired?: boolean;
  /** Added, with `failed`: another attempt would fail in the same way, so the restart policy does not apply. */
  readonly permanent?: boolean;
  /** Added: number of restarts of the task, with `Restarting`. */
  readonly restartCount?: number;
  /** Added: the signal number that ended the program. */
  readonly signal?: number;
  /** Added: the end of the program's output (at most 4 KiB each, control characters replaced), with a terminal state. */
  readonly logsStdout?: string;
  readonly logsStderr?: string;
}

/** Added. Server to agent, on `k8s4r/robots/{id}/tasks/{uid}/ack` (QoS 1): this status is stored and need not be repeated. */
export interface AckMessage {
  readonly taskUid: string;
  readonly attempt: number;
  readonly seq: number;
}

/** Feature of an agent that runs a task with `disconnect.onRobot: stop` only while it holds the task's lease. */
export const leasesFeature = "leases";

/** Feature of an agent that runs the health checks of services. */
export const checksFeature = "checks";

/** Feature of an agent that runs init tasks. */
export const initTasksFeature = "init-tasks";

/** An attempt of a task. */
export interface LeasedTask {
  readonly taskUid: string;
  readonly attempt: number;
}

/**
 * Added. Agent to server, on `k8s4r/robots/{id}/lease` (QoS 1): asks for the leases of these attempts. A lease counts from when the
 * agent sent the request, so that it ends on the robot before it ends for the server.
 */
export interface LeaseRequest {
  /** Identifies the request. */
  readonly nonce: string;
  readonly tasks: readonly LeasedTask[];
}

/** Added. Server to agent, on `k8s4r/robots/{id}/lease/answer` (QoS 1). */
export interface LeaseAnswer {
  readonly nonce: string;
  readonly granted: readonly LeasedTask[];
  /** Attempts that the robot must stop and remove. */
  readonly refused: readonly LeasedTask[];
}

/** Feature of an agent with a key that delivers signals to programs of tasks. */
export const signalsFeature = "signals";

/**
 * Added. Server to agent, on `k8s4r/robots/{id}/signals` (QoS 1), to robots with a key: signals the program of a task. It may be repeated;
 * the agent delivers it once.
 */
export interface SignalMessage {
  /** uid of the TaskSignal. */
  readonly id: string;
  readonly taskUid: string;
  readonly attempt: number;
  /** Name of the signal, such as `SIGHUP`. */
  readonly signal: string;
  /** The server's time in milliseconds. An agent drops signals that were issued before it started: the last one may have delivered them. */
  readonly issuedAt: number;
}

/** Added. Agent to server, on `k8s4r/robots/{id}/signals/answer` (QoS 1). */
export interface SignalAnswer {
  readonly id: string;
  readonly isDelivered: boolean;
  /** Why it was not delivered. */
  readonly message: string;
}

/** Added. Agent to server, on `k8s4r/robots/{id}/rejected` (QoS 1): the agent dropped a message that the server did not sign. */
export interface RejectedMessage {
  readonly topic: string;
  readonly reason: string;
}

/** The agent's MQTT client id, the same as the original's. */
export const agentClientId = (robotId: string): string => `k8s4r-agent-${robotId}`;

/** A robot's id: a DNS label, so that it is a valid topic level and object name. */
export const robotIdPattern = /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/;

/** A task's uid as the API server generates it. Checked before it becomes a topic level or a directory. */
export const taskUidPattern = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;

/** Topics. `id` and `uid` must match {@link robotIdPattern} and {@link taskUidPattern}. */
export const topics = {
  register: "k8s4r/register",
  heartbeat: "k8s4r/heartbeat",
  response: (id: string) => `k8s4r/robots/${id}/response`,
  dispatch: (id: string) => `k8s4r/robots/${id}/tasks/dispatch`,
  status: (id: string, uid: string) => `k8s4r/robots/${id}/tasks/${uid}/status`,
  ack: (id: string, uid: string) => `k8s4r/robots/${id}/tasks/${uid}/ack`,
  online: (id: string) => `k8s4r/robots/${id}/online`,
  lease: (id: string) => `k8s4r/robots/${id}/lease`,
  leaseAnswer: (id: string) => `k8s4r/robots/${id}/lease/answer`,
  /** Register and heartbeat of a robot with a key, so that a broker can restrict each robot to its own topics. */
  ownRegister: (id: string) => `k8s4r/robots/${id}/register`,
  ownHeartbeat: (id: string) => `k8s4r/robots/${id}/heartbeat`,
  join: (id: string) => `k8s4r/robots/${id}/join`,
  joinAnswer: (id: string) => `k8s4r/robots/${id}/join/answer`,
  rejected: (id: string) => `k8s4r/robots/${id}/rejected`,
  signals: (id: string) => `k8s4r/robots/${id}/signals`,
  signalAnswer: (id: string) => `k8s4r/robots/${id}/signals/answer`,
  exec: (id: string) => `k8s4r/robots/${id}/exec`,
  execOutput: (id: string) => `k8s4r/robots/${id}/exec/output`,
  /** Topic filters of the bridge. */
  allOwnRegister: "k8s4r/robots/+/register",
  allOwnHeartbeat: "k8s4r/robots/+/heartbeat",
  allJoins: "k8s4r/robots/+/join",
  allRejected: "k8s4r/robots/+/rejected",
  allSignalAnswers: "k8s4r/robots/+/signals/answer",
  allExecOutput: "k8s4r/robots/+/exec/output",
  allStatus: "k8s4r/robots/+/tasks/+/status",
  allOnline: "k8s4r/robots/+/online",
  allLeases: "k8s4r/robots/+/lease",
  /** Topic filter of an agent. */
  ownAcks: (id: string) => `k8s4r/robots/${id}/tasks/+/ack`,
} as const;

/** Topic filters of the bridge. */
export const bridgeSubscriptions: readonly string[] = [
  topics.register,
  topics.heartbeat,
  topics.allOwnRegister,
  topics.allOwnHeartbeat,
  topics.allStatus,
  topics.allOnline,
  topics.allLeases,
  topics.allJoins,
  topics.allRejected,
  topics.allSignalAnswers,
  topics.allExecOutput,
];
