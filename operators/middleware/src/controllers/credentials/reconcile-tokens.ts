import { randomUUID } from "node:crypto";
import type { DeepReadonly } from "@keelson/api-machinery";
import { formatTime } from "@keelson/api-machinery/time";
import type { ReconcileContext, Result } from "@keelson/controller";
import type { AgentClient } from "../../agent/agent-client.ts";
import type { App } from "../../api/app.ts";
import { tokenKeys } from "../../api/names.ts";
import type { AgentAccess } from "../agent-access.ts";
import { type CredentialStep, decideCredentials } from "./credential-decision.ts";
import type { StoredPassword } from "./publication.ts";
import {
  acceptedHashes,
  type CredentialState,
  hasState,
  parseCredentialState,
  type ReportedCredentials,
} from "./credential-state.ts";
import { type ReadSecret, textOf, writeSecret } from "./password-secret.ts";

const user = "default";
/** Agents that do not respond are asked again after this time. */
const retryMs = 30_000;

/** A Pod and the tokens that its agent accepts. */
export interface TokenPod {
  readonly name: string;
  readonly ip: string | undefined;
  /** Undefined if its agent does not respond, or is of an earlier release. */
  readonly tokens: ReportedCredentials | undefined;
  /** Whether its agent answers and cannot change its token. */
  readonly cannotRotate: boolean;
}

/** Inputs of a decision about the token of the agents. */
export interface TokenObservation {
  readonly state: CredentialState | undefined;
  readonly token: StoredPassword;
  readonly pods: readonly TokenPod[];
  readonly newId: string;
  readonly graceMs: number;
  readonly now: number;
}

/**
 * Decides about the token of the agents as about a password: all agents accept the next one before controllers and other agents use it, and the
 * one before until its grace period has ended. Nothing is recorded before the first rotation. Pure.
 */
export function decideTokens({ state, token, pods, ...rest }: TokenObservation): CredentialStep {
  if (state === undefined && token.nextPassword === undefined) return { kind: "wait" };
  return decideCredentials({
    ...{ state, ...rest },
    users: new Map([[user, []]]),
    secrets: new Map([[user, token]]),
    pods: pods.map(({ tokens }) => tokens),
    createVerifier: () => "",
  });
}

/** Sends the recorded tokens to agents with older ones. `token`: the one that they use. Resolves to whether all have them. */
async function sendTokens(
  pods: readonly TokenPod[],
  state: CredentialState,
  {
    agents,
    access,
    token,
  }: { readonly agents: Pick<AgentClient, "call">; readonly access: AgentAccess; readonly token: string },
): Promise<boolean> {
  const { sequence, id = "", users } = state;
  const recorded = users[user];
  if (recorded === undefined) return true;
  const request = { method: "SetTokens", sequence, id, agentToken: token, tokenHashes: acceptedHashes(recorded) } as const;
  const results = await Promise.all(
    pods.map(async ({ ip, tokens }) => {
      if (hasState(tokens, state)) return true;
      if (ip === undefined || tokens === undefined) return false;
      return (await agents.call(ip, access, request)).kind === "done";
    }),
  );
  return results.every(Boolean);
}

/** What the token is rotated with. */
export interface TokenFacts {
  readonly secret: ReadSecret;
  readonly access: AgentAccess;
  readonly pods: readonly TokenPod[];
  readonly graceMs: number;
}

/** Whether a step was taken, after which the App is reconciled again; otherwise when a token ends. */
export type TokenOutcome =
  | { readonly kind: "changed"; readonly result: Result | undefined }
  | { readonly kind: "settled"; readonly untilMs?: number | undefined };

/** Takes the next step of the rotation of the token of an App's agents. */
export async function reconcileTokens(
  app: DeepReadonly<App>,
  { secret, access, pods, graceMs }: TokenFacts,
  context: ReconcileContext,
  agents: Pick<AgentClient, "call">,
): Promise<TokenOutcome> {
  const { clock, events } = context;
  const [password, next] = [textOf(secret, tokenKeys.current) ?? "", textOf(secret, tokenKeys.next)];
  const state = parseCredentialState(textOf(secret, tokenKeys.state));
  if (next !== undefined && pods.some(({ cannotRotate }) => cannotRotate)) {
    const note = "the agents of the Pods are of an earlier release and cannot change their token: restart the Pods";
    events.event(app, { type: "Warning", reason: "TokenNotRotated", note });
    return { kind: "settled" };
  }
  const token = { password, ...(next === undefined ? {} : { nextPassword: next }) };
  const step = decideTokens({ state, token, pods, graceMs, newId: randomUUID(), now: clock.now() });
  switch (step.kind) {
    case "record":
      await writeSecret(context, secret, { [tokenKeys.state]: JSON.stringify(step.state) });
      return { kind: "changed", result: undefined };
    case "publish": {
      const isWritten = await writeSecret(context, secret, { [tokenKeys.current]: next ?? password, [tokenKeys.next]: null });
      const until = formatTime(clock.now() + graceMs);
      const note = `the agents have a new token; the previous one is accepted until ${until}`;
      if (isWritten) events.event(app, { type: "Normal", reason: "TokenRotated", note });
      return { kind: "changed", result: undefined };
    }
    case "send": {
      const isSent = state !== undefined && (await sendTokens(pods, state, { agents, access, token: password }));
      // An agent that does not respond does not delay the passwords of the others.
      return isSent ? { kind: "changed", result: { requeueAfterMs: 1 } } : { kind: "settled", untilMs: clock.now() + retryMs };
    }
    case "wait":
      return { kind: "settled", untilMs: step.untilMs };
  }
}
