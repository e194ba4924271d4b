import { randomBytes } from "node:crypto";
import { type DeepReadonly, ignoreNotFound, isNotFound } from "@keelson/api-machinery";
import { Secret, type SecretObject } from "@keelson/api-machinery/kinds";
import { formatTime } from "@keelson/api-machinery/time";
import {
  awaitObject,
  type CommandContext,
  type CommandDefinition,
  formatResult,
  outputFlag,
  renderTable,
} from "@keelson/operator";
import { durationFlag } from "@keelson/operator/flags";
import { App } from "../api/app.ts";
import { accessSecretName, credentialsKey, passwordKeys, tokenKeys, userSecretName } from "../api/names.ts";
import { type CredentialState, parseCredentialState, type UserState } from "../controllers/credentials/credential-state.ts";
import { secretOf } from "../controllers/credentials/password-secret.ts";
import { PluginError } from "../plugin/read-plugin.ts";
import { namespaceFlag } from "./app-flags.ts";
import { pluginOf } from "./find-plugin.ts";
import { withErrors } from "./with-errors.ts";

const timeoutFlag = durationFlag({
  name: "timeout",
  description:
    "create, rotate, delete: fail if the Pods do not accept the change within this time; it still takes effect later",
  default: "2m",
  bareUnit: "s",
});

/** `keelson app users list | create | rotate | delete`. */
export const usersCommand: CommandDefinition = {
  name: "users",
  description: "list, create or delete users of an App, or rotate a password without interrupting clients",
  args: ["list|create|rotate|delete", "APP", "[USER]"],
  flags: [
    namespaceFlag,
    outputFlag,
    timeoutFlag,
    { name: "agent-token", description: "rotate: replace the token of the agents instead of a password" },
    {
      name: "rules",
      value: "RULES",
      description: 'create: access rules, such as "~app:* +@read" of Redis or "database:app" of PostgreSQL',
      default: "",
    },
  ],
  run: (context) => withErrors(context, runInTime),
};

/** Programs without users, and Pods that are away, accept a change late or never. */
async function runInTime(context: CommandContext): Promise<number> {
  const { clock, signal, flags, args } = context;
  const timeoutMs = timeoutFlag.read(flags);
  const late = new AbortController();
  const timer = clock.setTimer(timeoutMs, () => late.abort());
  try {
    return await runAction({ ...context, signal: AbortSignal.any([signal, late.signal]) });
  } catch (error) {
    if (!late.signal.aborted || signal.aborted) throw error;
    const name = args[1] ?? "";
    const message = `the Pods of ${name} have not accepted the change within ${timeoutMs / 1000} s; see kubectl describe app ${name}`;
    return refuse(context, message, 1);
  } finally {
    timer.cancel();
  }
}

async function runAction(context: CommandContext): Promise<number> {
  const [action, name = "", user] = context.args;
  const namespace = typeof context.flags.namespace === "string" ? context.flags.namespace : "default";
  const subject: Subject = { context, namespace, name };
  if (action === "create" || (action === "rotate" && context.flags["agent-token"] !== true)) {
    const problem = await problemOfPlugin(subject);
    if (problem !== undefined) return refuse(context, problem, 1);
  }
  switch (action) {
    case "list":
      return user === undefined ? listUsers(subject) : refuse(context, "list takes no USER");
    case "rotate":
      if (context.flags["agent-token"] === true)
        return user === undefined ? rotateToken(subject) : refuse(context, "--agent-token takes no USER");
      return rotatePassword(subject, user ?? "default");
    case "create":
    case "delete":
      if (user === undefined || user === "default") return refuse(context, `${action} needs a USER other than default`);
      return action === "create" ? createUser(subject, user) : deleteUser(subject, user);
    default:
      return refuse(context, `${JSON.stringify(action)} must be list, create, rotate or delete`);
  }
}

interface Subject {
  readonly context: CommandContext;
  readonly namespace: string;
  readonly name: string;
}

/** Why the programs of an App accept no changes of passwords. A plugin that cannot be read leaves the decision to the agents. */
async function problemOfPlugin({ context, namespace, name }: Subject): Promise<string | undefined> {
  const client = await context.client();
  const app = await client.get(App, { namespace, name });
  const plugin = await pluginOf(client, app).catch((error: unknown) => {
    if (isNotFound(error) || error instanceof PluginError) return undefined;
    throw error;
  });
  if (plugin?.hasUsers !== false) return undefined;
  return `App ${name}: plugin ${plugin.name} ${plugin.version} has no users and does not rotate passwords`;
}

function refuse({ stderr }: CommandContext, message: string, code = 2): number {
  stderr.write(`${message}\n`);
  return code;
}

async function listUsers({ context, namespace, name }: Subject): Promise<number> {
  const client = await context.client();
  const app = await client.get(App, { namespace, name });
  const state = stateOf(await ignoreNotFound(client.get(Secret, { namespace, name: accessSecretName(name) })));
  const users = ["default", ...(app.spec.users ?? []).map((user) => user.name)].map((user) => {
    const recorded = state?.users[user];
    const login = recorded?.logins?.[recorded.current]?.name;
    const all = login === undefined ? ["+@all", "~*", "&*"] : ["superuser"];
    const rules = user === "default" ? all : (app.spec.users?.find((each) => each.name === user)?.rules ?? []);
    const password = describePassword(recorded, state);
    return { user, rules, secret: secretOf(app, user), ...(login === undefined ? {} : { login }), password };
  });
  const unpublished = Object.entries(state?.unpublished ?? {}).map(([user, problem]) => `user ${user}: ${problem}`);
  const problems = [...(state?.problem === undefined ? [] : [state.problem]), ...unpublished];
  const describe = (): string =>
    renderTable([
      ["USER", "RULES", "SECRET", "LOGIN", "PASSWORD"],
      ...users.map(({ user, rules, secret, login = user, password }) => [user, rules.join(" "), secret, login, password]),
    ]) + problems.map((each) => `${each}\n`).join("");
  context.stdout.write(
    formatResult(context, { users, ...(problems.length === 0 ? {} : { problem: problems.join("; ") }) }, describe),
  );
  return 0;
}

function describePassword(user: UserState | undefined, state: CredentialState | undefined): string {
  if (user === undefined || state === undefined) return "pending";
  if (user.next !== undefined) return "rotating";
  const until = Math.max(0, ...user.previous.map(({ untilMs }) => untilMs));
  if (until > 0) return `rotated; the previous one is accepted until ${formatTime(until)}`;
  return state.applied === state.sequence ? "in force" : "pending";
}

async function createUser(subject: Subject, user: string): Promise<number> {
  const { context, namespace, name } = subject;
  const client = await context.client();
  const app = await client.get(App, { namespace, name });
  if (app.spec.users?.some((each) => each.name === user)) return refuse(context, `user ${user} already exists`, 1);
  const rules = String(context.flags["rules"] ?? "")
    .split(/\s+/)
    .filter((rule) => rule !== "");
  const users = [...(app.spec.users ?? []), { name: user, rules }];
  await patchUsers(subject, app, users);
  const problem = await awaitState(subject, (state) => state.users[user] !== undefined && state.applied === state.sequence);
  if (problem !== undefined) return refuse(context, problem, 1);
  const result = { user, secret: userSecretName(name, user) };
  context.stdout.write(formatResult(context, result, () => `user ${user}: the password is in Secret ${result.secret}\n`));
  return 0;
}

async function deleteUser(subject: Subject, user: string): Promise<number> {
  const { context, namespace, name } = subject;
  const client = await context.client();
  const app = await client.get(App, { namespace, name });
  const found = app.spec.users?.find((each) => each.name === user);
  if (found === undefined) return refuse(context, `user ${user} not found`, 1);
  await patchUsers(
    subject,
    app,
    (app.spec.users ?? []).filter((each) => each !== found),
  );
  const problem = await awaitState(subject, (state) => state.users[user] === undefined && state.applied === state.sequence);
  if (problem !== undefined) return refuse(context, problem, 1);
  if (found.passwordSecret === undefined)
    await ignoreNotFound(client.delete(Secret, { namespace, name: userSecretName(name, user) }));
  context.stdout.write(formatResult(context, { user, deleted: true }, () => `user ${user} deleted\n`));
  return 0;
}

/** A concurrent change of the App is a conflict. */
async function patchUsers({ context, namespace, name }: Subject, app: DeepReadonly<App>, users: unknown): Promise<void> {
  const client = await context.client();
  const body = { metadata: { resourceVersion: app.metadata.resourceVersion }, spec: { users } };
  await client.patch(App, { namespace, name }, { type: "merge", body });
}

/** Requests a new password. Pods accept it before it is published in the Secret. */
async function rotatePassword(subject: Subject, user: string): Promise<number> {
  const { context, namespace, name } = subject;
  const client = await context.client();
  const app = await client.get(App, { namespace, name });
  if (user !== "default" && !app.spec.users?.some((each) => each.name === user))
    return refuse(context, `user ${user} not found`, 1);
  const state = stateOf(await ignoreNotFound(client.get(Secret, { namespace, name: accessSecretName(name) })));
  const problem = state?.unpublished?.[user];
  if (problem !== undefined) return refuse(context, `user ${user}: ${problem}`, 1);
  const secret = secretOf(app, user);
  if (!(await publishNext(subject, secret, passwordKeys.next))) return refuse(context, `Secret ${secret} was deleted`, 1);
  const result = { user, secret };
  const describe = (): string => `user ${user}: Secret ${secret} has the new password; see keelson app users list ${name}\n`;
  context.stdout.write(formatResult(context, result, describe));
  return 0;
}

/** Requests a new token of the agents. All of them accept it before the controllers use it. */
async function rotateToken(subject: Subject): Promise<number> {
  const { context, name } = subject;
  const secret = accessSecretName(name);
  if (!(await publishNext(subject, secret, tokenKeys.next))) return refuse(context, `Secret ${secret} was deleted`, 1);
  context.stdout.write(formatResult(context, { secret }, () => `the agents of ${name} have a new token\n`));
  return 0;
}

/** Writes a random value into a key of a Secret, and waits until the controller has published it. False: the Secret was deleted. */
async function publishNext({ context, namespace }: Subject, name: string, key: string): Promise<boolean> {
  const client = await context.client();
  const next = randomBytes(24).toString("base64url");
  const body = { data: { [key]: Buffer.from(next).toString("base64") } };
  await client.patch(Secret, { namespace, name }, { type: "merge", body });
  const published = await awaitObject(
    client,
    Secret,
    { namespace, name },
    (each) => (each.data?.[key] === undefined ? true : undefined),
    context.signal,
  );
  return published !== undefined;
}

/** Waits until the Pods have a state. Resolves to why that failed. */
async function awaitState(
  { context, namespace, name }: Subject,
  isReached: (state: CredentialState) => boolean,
): Promise<string | undefined> {
  const client = await context.client();
  const secret = accessSecretName(name);
  const read = (each: DeepReadonly<SecretObject>): { readonly problem?: string } | undefined => {
    const state = stateOf(each);
    if (state?.problem !== undefined) return { problem: state.problem };
    return state !== undefined && isReached(state) ? {} : undefined;
  };
  const outcome = await awaitObject(client, Secret, { namespace, name: secret }, read, context.signal);
  return outcome === undefined ? `Secret ${secret} was deleted` : outcome.problem;
}

function stateOf(secret: DeepReadonly<SecretObject> | undefined): CredentialState | undefined {
  const encoded = secret?.data?.[credentialsKey];
  return parseCredentialState(encoded === undefined ? undefined : Buffer.from(encoded, "base64").toString("utf8"));
}
