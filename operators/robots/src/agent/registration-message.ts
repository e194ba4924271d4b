import { execFeature } from "../protocol/exec-messages.ts";
import { leasesFeature, type RegisterMessage, signalsFeature } from "../protocol/messages.ts";
import type { AgentState } from "./held-task.ts";

/** What a registration says about the agent. */
export interface RegistrationFacts
  extends Pick<RegisterMessage, "robotId" | "labels" | "deviceInfo" | "bootId" | "instanceId" | "drivers"> {
  /** Of a robot with a key: identifies the registration. */
  readonly nonce: string | undefined;
  /** Of a robot without a key: the join token, and the digest of the agent's credential. */
  readonly token: string;
  readonly credentialSha256: string | undefined;
}

/** The registration of an agent with its tasks. */
export function registrationMessage(facts: RegistrationFacts, state: AgentState): RegisterMessage {
  const { nonce, credentialSha256, ...rest } = facts;
  return {
    ...rest,
    ...(nonce === undefined ? {} : { nonce }),
    ...(credentialSha256 === undefined ? {} : { credentialSha256 }),
    // Signals and commands are signed, so they require a key. Only a registration with a key has a nonce.
    features: [leasesFeature, ...(nonce === undefined ? [] : [signalsFeature, execFeature])],
    tasks: [...state.tasks.values()]
      .filter((task) => task.phase !== "gone" && task.phase !== "deleting")
      .map((task) => ({ taskUid: task.uid, attempt: task.attempt })),
  };
}
