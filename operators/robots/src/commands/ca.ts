import type { DeepReadonly } from "@keelson/api-machinery";
import type { Client } from "@keelson/client";
import { type CommandContext, type CommandDefinition, formatResult, outputFlag, renderTable } from "@keelson/operator";
import { switchFlag } from "@keelson/operator/flags";
import { Robot } from "../api/robot.ts";
import { type AuthorityDependents, authorityDependents } from "../identity/authority/authority-dependents.ts";
import {
  authorityExpiry,
  type AuthorityState,
  brokerStep,
  dropAuthority,
  promoteAuthority,
  retireAuthority,
  stageAuthority,
} from "../identity/authority/authority-state.ts";
import { changeRobotAuthority, readRobotAuthority } from "../identity/authority/authority-store.ts";
import { robotsWithout } from "../identity/authority/trusting-robots.ts";
import { authorityIdOf } from "../identity/authority/trust-bundle.ts";
import { identityOf } from "../identity/robot-identity.ts";
import { readTokens } from "../identity/token-store.ts";
import { namespaceFlag } from "./flags.ts";

const forceFlag = switchFlag({
  name: "force",
  description: "retire: proceed even if robots or join tokens need the old authority; these robots must join again",
});

const fieldManager = "keelson-robots-ca";

/** `keelson robots ca status | rotate | confirm | retire`. */
export const caCommand: CommandDefinition = {
  name: "ca",
  description: "show or replace the certificate authority of robots",
  args: ["status|rotate|confirm|retire"],
  flags: [namespaceFlag, forceFlag, outputFlag],
  async run(context) {
    const [action = ""] = context.args;
    const actions = { status: showStatus, rotate, confirm, retire } as const;
    if (!Object.hasOwn(actions, action)) {
      context.stderr.write(`${JSON.stringify(action)} must be status, rotate, confirm or retire\n`);
      return 2;
    }
    const client = await context.client();
    try {
      return await actions[action as keyof typeof actions](context, client);
    } finally {
      await client.close();
    }
  },
};

/** The phase of a rotation, and what comes next. */
function describePhase(state: AuthorityState): { readonly phase: string; readonly message: string } {
  if (state.next !== undefined)
    return {
      phase: "Staged",
      message: "robots learn to trust the new authority; it issues certificates once the broker trusts it",
    };
  if (state.previous === undefined) return { phase: "Idle", message: "replace the authority with keelson robots ca rotate" };
  return state.isRetiring === true
    ? { phase: "Retiring", message: "the old authority is dropped once the broker has a certificate of the new one" }
    : {
        phase: "Issuing",
        message: "robots renew their certificates; end with keelson robots ca retire when all trust the new authority",
      };
}

async function showStatus(context: CommandContext, client: Client): Promise<number> {
  const namespace = namespaceFlag.read(context.flags);
  const authority = await readRobotAuthority(client, namespace, context.signal);
  if (authority === undefined) {
    context.stderr.write(`no certificate authority yet: no robot has joined with a token in namespace ${namespace}\n`);
    return 1;
  }
  const robots = await robotsWithKeys(context, client);
  const { state } = authority;
  const authorities = authority.trusted.map((each) => ({
    id: authorityIdOf(each.pin),
    role: roleOf(each.certificate, state),
    expires: authorityExpiry(each),
    robots: robots.length - robotsWithout(robots, each.pin).length,
  }));
  const newest = authority.trusted.at(-1)?.pin ?? authority.pin;
  const missing = robotsWithout(robots, newest).map(robotName);
  const { phase, message } = describePhase(state);
  const result = { phase, message, authorities, robotsWithKeys: robots.length, robotsWithoutNewest: missing };
  context.stdout.write(
    formatResult(context, result, () => {
      const rows = authorities.map(({ id, role, expires, robots: count }) => [
        id,
        role,
        expires,
        `${count} of ${robots.length}`,
      ]);
      const table = renderTable([["AUTHORITY", "ROLE", "EXPIRES", "TRUSTED BY"], ...rows]);
      const isRotating = authorities.length > 1 && missing.length > 0;
      return `${table}${phase}: ${message}\n${isRotating ? `Robots that do not trust the newest one: ${listed(missing)}\n` : ""}`;
    }),
  );
  return 0;
}

function roleOf(certificate: string, { next, previous }: AuthorityState): string {
  if (certificate === next?.certificate) return "next";
  return certificate === previous?.certificate ? "previous" : "issuing";
}

async function rotate(context: CommandContext, client: Client): Promise<number> {
  return await change(context, client, (state, now) => {
    const { phase, message } = describePhase(state);
    return phase === "Idle" ? stageAuthority(state, now) : `a rotation is under way (${phase}): ${message}`;
  });
}

async function confirm(context: CommandContext, client: Client): Promise<number> {
  return await change(context, client, (state) => {
    const step = brokerStep(state);
    if (step === undefined) return "nothing waits for the broker; see keelson robots ca status";
    return step === "promote" ? promoteAuthority(state) : dropAuthority(state);
  });
}

async function retire(context: CommandContext, client: Client): Promise<number> {
  const force = forceFlag.read(context.flags);
  return await change(context, client, async (state, now) => {
    const { phase, message } = describePhase(state);
    if (phase !== "Issuing") return `no authority to retire (${phase}): ${message}`;
    const { robots, tokens } = force ? { robots: [], tokens: [] } : await cutOff(context, client, now);
    if (robots.length + tokens.length === 0) return await retireAuthority(state, now);
    return [
      "the old authority is still needed; retire it anyway with --force",
      ...robots.map((robot) => `  robot ${robotName(robot)}: last heartbeat ${robot.status?.lastHeartbeatTime ?? "never"}`),
      ...tokens.map((id) => `  join token ${id}: unused`),
    ].join("\n");
  });
}

/** Writes a change. A text says why it is not possible. */
async function change(
  context: CommandContext,
  client: Client,
  changed: (state: AuthorityState, now: number) => AuthorityState | string | Promise<AuthorityState | string>,
): Promise<number> {
  const [namespace, now] = [namespaceFlag.read(context.flags), context.clock.now()];
  let problem: string | undefined;
  const authority = await changeRobotAuthority({ client, namespace, fieldManager, now }, async (state) => {
    const result = await changed(state, now);
    problem = typeof result === "string" ? result : undefined;
    return typeof result === "string" ? state : result;
  });
  if (problem !== undefined) {
    context.stderr.write(`${problem}\n`);
    return 1;
  }
  const { phase, message } = describePhase(authority.state);
  context.stdout.write(formatResult(context, { phase, message }, () => `${phase}: ${message}\n`));
  return 0;
}

/** Robots and tokens that cannot be used without the previous authority. */
async function cutOff(context: CommandContext, client: Client, now: number): Promise<AuthorityDependents> {
  const namespace = namespaceFlag.read(context.flags);
  const authority = await readRobotAuthority(client, namespace, context.signal);
  const pin = authority?.pin ?? "";
  const { tokens } = await readTokens({ client, namespace, fieldManager, signal: context.signal });
  return authorityDependents({ robots: await robotsWithKeys(context, client), tokens }, pin, now);
}

async function robotsWithKeys(context: CommandContext, client: Client): Promise<readonly DeepReadonly<Robot>[]> {
  const { items } = await client.list(Robot, { namespace: namespaceFlag.read(context.flags), signal: context.signal });
  return items.filter((robot) => identityOf(robot)?.isRevoked === false);
}

const robotName = ({ metadata }: DeepReadonly<Robot>): string => metadata.name ?? "";

/** At most 20 names. */
function listed(names: readonly string[]): string {
  const more = names.length - 20;
  return names.slice(0, 20).join(", ") + (more > 0 ? ` and ${more} more` : "");
}
