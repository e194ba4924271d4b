import type { AgentClient } from "../../agent/agent-client.ts";
import type { AgentAccess } from "../agent-access.ts";
import {
  acceptedHashes,
  acceptedLogins,
  type CredentialState,
  hasState,
  type ReportedCredentials,
} from "./credential-state.ts";

/** A Pod and the credentials that it has. */
export interface CredentialPod {
  readonly name: string;
  readonly ip: string | undefined;
  readonly isPrimary: boolean;
  /** Undefined if its agent or its program does not respond. */
  readonly reported: ReportedCredentials | undefined;
  /** Whether its agent answers and has no users. */
  readonly isUnsupported: boolean;
}

/** Why a Pod does not have the credentials. */
export interface SendProblem {
  readonly message: string;
  /** The program does not accept them: sending them again does not help. */
  readonly isRejected: boolean;
}

/** How to reach the agents. */
export interface SendOptions {
  readonly agents: Pick<AgentClient, "call">;
  readonly access: AgentAccess;
  /** The published password of the default user, with which servers authenticate at each other. */
  readonly password: string;
  /** Its login, for programs with one password per login. */
  readonly login?: string | undefined;
}

/** Sends users to Pods with older ones, in order. Resolves to the first problem. */
export async function sendCredentials(
  pods: readonly CredentialPod[],
  state: CredentialState,
  { agents, access, password, login }: SendOptions,
): Promise<SendProblem | undefined> {
  const { sequence, id = "", users } = state;
  let problem: SendProblem | undefined;
  const sent = Object.entries(users).map(([name, user]) => {
    const logins = acceptedLogins(user);
    return { name, rules: user.rules, passwordHashes: acceptedHashes(user), ...(logins && { logins }) };
  });
  const own = { password, ...(login === undefined ? {} : { login }) };
  for (const pod of pods) {
    if (hasState(pod.reported, state)) continue;
    if (pod.ip === undefined || pod.reported === undefined) {
      problem ??= { message: `${pod.name} does not respond`, isRejected: false };
      continue;
    }
    const result = await agents.call(pod.ip, access, { method: "SetCredentials", sequence, id, ...own, users: sent });
    if (result.kind === "refused") problem ??= { message: `${pod.name}: ${result.message}`, isRejected: true };
    else if (result.kind === "unreachable") problem ??= { message: `${pod.name} does not respond`, isRejected: false };
  }
  return problem;
}
