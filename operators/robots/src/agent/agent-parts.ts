import { randomBytes } from "node:crypto";
import { join, resolve } from "node:path";
import type { Driver } from "@keelson/execution";
import type { AgentOptions } from "../commands/start-agent.ts";
import { RobotsError } from "../robots-error.ts";
import type { AgentDependencies } from "./agent-dependencies.ts";
import { openAgentDriver } from "./agent-driver.ts";
import type { AgentContainers } from "./containers/agent-containers.ts";
import { ArtifactCache } from "./files/artifact-cache.ts";
import { openWithReserve } from "./files/disk-reserve.ts";
import { RobotLabels } from "./files/robot-labels.ts";
import { TaskFiles } from "./files/task-files.ts";
import { AgentCredential } from "./identity/agent-credential.ts";
import { AgentIdentity } from "./identity/agent-identity.ts";
import { LeaseGuard } from "./leases/lease-guard.ts";
import type { DockerPolicy } from "./policy/docker-policy.ts";
import { defaultRobotPolicy } from "./policy/robot-policy.ts";
import { readDeviceInfo } from "./read-device-info.ts";
import { openTaskRecords, type TaskRecords } from "./tasks/task-records.ts";

/** What an agent has on disk. */
export interface AgentParts {
  readonly driver: Driver;
  /** Undefined if the robot does not run containers. */
  readonly containers: AgentContainers | undefined;
  /** Why the robot runs none although its policy allows them. */
  readonly noContainers?: string;
  readonly records: TaskRecords;
  readonly guard: LeaseGuard;
  /** Absolute. */
  readonly workDir: string;
  readonly credential: AgentCredential;
  readonly identity: AgentIdentity;
  readonly robotLabels: RobotLabels;
  readonly files: TaskFiles;
}

/**
 * Opens the agent's state in `workDir`. After an error, only a driver that was passed is open.
 *
 * **Errors**: if `workDir` cannot be used or is locked, or if the robot has neither joined nor a join token.
 */
export function openAgentParts(options: AgentOptions & AgentDependencies): Promise<AgentParts> {
  return openWithReserve(join(resolve(options.workDir), ".agent", "reserve"), () => tryOpenParts(options));
}

async function tryOpenParts(options: AgentOptions & AgentDependencies): Promise<AgentParts> {
  const opened: Driver[] = [];
  try {
    return await openParts(options, opened);
  } catch (error) {
    // The first error is the cause; drivers are left locked only if they cannot be closed.
    for (const driver of opened.reverse()) await driver.close().catch(() => {});
    throw error;
  }
}

/** Adds to `opened` the drivers that must be closed after an error. */
async function openParts(options: AgentOptions & AgentDependencies, opened: Driver[]): Promise<AgentParts> {
  const { robotId, clock, random = Math.random } = options;
  const workDir = resolve(options.workDir);
  const agentDir = join(workDir, ".agent");
  const isIsolating = options.policy?.isolation !== undefined;
  const { docker } = options.policy ?? defaultRobotPolicy;
  const found = docker === undefined ? undefined : await openContainers(join(agentDir, "containers"), docker, options);
  const containers = typeof found === "string" ? undefined : found;
  if (containers !== undefined) opened.push(containers.driver);
  const driver =
    options.driver ?? (await openAgentDriver({ dir: agentDir, clock, random, isIsolating, containers: containers?.driver }));
  // It closes that of the containers.
  if (options.driver === undefined) opened.splice(0, opened.length, driver);
  const records = await openTaskRecords(join(agentDir, "tasks"));
  const randomSecret = options.randomSecret ?? (() => randomBytes(32).toString("base64url"));
  const credential = await AgentCredential.open(join(agentDir, "credential.json"), randomSecret, (aside) => {
    options.log.error(
      { file: aside },
      "the credential is damaged and was moved aside; if the robot is bound to it, admit the agent again",
    );
  });
  const identity = await AgentIdentity.open(join(agentDir, "identity.json"), robotId, options.log);
  if (options.token === undefined && identity.joined === undefined) {
    throw new RobotsError(
      "JoinFailed",
      "this robot has not joined yet: pass a join token with --token-file, or in K8S4R_TOKEN",
    );
  }
  const guard = new LeaseGuard(join(agentDir, "leases"));
  const robotLabels = await RobotLabels.open(join(agentDir, "labels.json"), options.labels);
  const { artifacts: policy } = options.policy ?? defaultRobotPolicy;
  const files = new TaskFiles({
    policy,
    cache: new ArtifactCache({ dir: join(agentDir, "artifacts"), policy, clock, random }),
    labels: () => robotLabels.current,
    deviceInfo: () => readDeviceInfo(clock.now(), options.policy),
  });
  const noContainers = typeof found === "string" ? { noContainers: found } : {};
  return { ...noContainers, containers, driver, records, guard, workDir, credential, identity, robotLabels, files };
}

/** Robots without containers do not load what they need. */
async function openContainers(
  dir: string,
  policy: DockerPolicy,
  { clock, random = Math.random }: AgentDependencies & Pick<AgentOptions, "clock">,
): Promise<AgentContainers | string> {
  const { openAgentContainers } = await import("./containers/agent-containers.ts");
  return await openAgentContainers({ dir, clock, random, policy });
}
