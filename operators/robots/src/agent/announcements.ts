import { resolve } from "node:path";
import type { DeviceInfo } from "../api/device-info.ts";
import type { AgentOptions } from "../commands/start-agent.ts";
import { execFeature } from "../protocol/exec-messages.ts";
import { logsFeature } from "../protocol/log-messages.ts";
import {
  checksFeature,
  initTasksFeature,
  leasesFeature,
  type RegisterMessage,
  signalsFeature,
  topics,
} from "../protocol/messages.ts";
import { authorityFeature } from "../identity/authority/trusting-robots.ts";
import type { AgentState } from "./held-task.ts";
import type { AgentCredential } from "./identity/agent-credential.ts";
import type { AgentMembership } from "./identity/agent-membership.ts";
import type { GenuineMessages } from "./identity/genuine-messages.ts";
import type { AgentPolicy } from "./policy/agent-policy.ts";
import { CpuMeter } from "./cpu-meter.ts";
import { readDeviceInfo } from "./read-device-info.ts";

/** Options of {@link Announcements}. */
export interface AnnouncementsOptions extends Pick<AgentOptions, "robotId" | "token" | "labels" | "clock" | "workDir"> {
  readonly policy: AgentPolicy;
  readonly membership: Pick<AgentMembership, "joined" | "pins">;
  readonly credential: Pick<AgentCredential, "digest">;
  readonly messages: Pick<GenuineMessages, "nextNonce">;
  readonly bootId: string;
  readonly instanceId: string;
}

/** A message about the robot, and its topic. */
export interface Announcement {
  readonly topic: string;
  readonly message: RegisterMessage;
}

/** What an agent tells the server about its robot. */
export class Announcements {
  readonly #options: AnnouncementsOptions;
  readonly #cpuMeter = new CpuMeter();

  constructor(options: AnnouncementsOptions) {
    this.#options = options;
  }

  /** The registration of an agent with its tasks. A robot with a key gets a nonce, and one without sends its token and credential. */
  registration({ tasks }: AgentState): Announcement {
    const { robotId, token = "", labels, policy, messages, credential, membership, bootId, instanceId } = this.#options;
    const nonce = messages.nextNonce();
    const facts = { robotId, labels, deviceInfo: this.#deviceInfo(), bootId, instanceId };
    const message: RegisterMessage = {
      ...facts,
      drivers: policy.drivers,
      // A one-time token is never sent.
      ...(this.#hasKey ? { token: "" } : { token, credentialSha256: credential.digest }),
      ...(nonce === undefined ? {} : { nonce }),
      // Signals and commands are signed, so they require a key. Only a registration with a key has a nonce.
      features: [
        leasesFeature,
        checksFeature,
        initTasksFeature,
        ...(nonce === undefined ? [] : [signalsFeature, execFeature, logsFeature]),
        ...membership.pins.map(authorityFeature),
      ],
      tasks: [...tasks.values()]
        .filter((task) => task.phase !== "gone" && task.phase !== "deleting")
        .map((task) => ({ taskUid: task.uid, attempt: task.attempt })),
    };
    return { topic: this.#hasKey ? topics.ownRegister(robotId) : topics.register, message };
  }

  /** A heartbeat, with measurements of the robot. */
  heartbeat(): Announcement {
    const { robotId, token = "", bootId } = this.#options;
    const deviceInfo = this.#deviceInfo();
    const message = { robotId, token: this.#hasKey ? "" : token, deviceInfo, bootId };
    return { topic: this.#hasKey ? topics.ownHeartbeat(robotId) : topics.heartbeat, message };
  }

  #deviceInfo(): DeviceInfo {
    const { clock, policy, workDir } = this.#options;
    return readDeviceInfo(clock.now(), { ...policy, workDir: resolve(workDir), cpuMeter: this.#cpuMeter });
  }

  get #hasKey(): boolean {
    return this.#options.membership.joined !== undefined;
  }
}
