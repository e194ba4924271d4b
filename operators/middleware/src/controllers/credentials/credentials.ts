import { randomUUID } from "node:crypto";
import { controllerReference, type DeepReadonly, ignoreNotFound, isAlreadyExists } from "@keelson/api-machinery";
import { ConfigMap, Secret } from "@keelson/api-machinery/kinds";
import { parseDuration } from "@keelson/api-machinery/time";
import {
  type ControllerDefinition,
  defineController,
  metadataOf,
  type ReconcileContext,
  type Request,
  type Result,
  watchOf,
} from "@keelson/controller";
import type { AgentClient } from "../../agent/agent-client.ts";
import { App } from "../../api/app.ts";
import { Group } from "../../api/group.ts";
import { accessSecretName, credentialsKey, labels, passwordKeys, userSecretName } from "../../api/names.ts";
import { isPlugin, pluginConfigMapName } from "../../plugin/read-plugin.ts";
import { type AgentAccess, agentAccessOf } from "../agent-access.ts";
import type { MiddlewareServices } from "../services.ts";
import { decideCredentials } from "./credential-decision.ts";
import type { StoredPassword } from "./publication.ts";
import { publishAll, reportUnpublished } from "./publish-passwords.ts";
import { type CredentialState, parseCredentialState } from "./credential-state.ts";
import { fieldManager, type ReadSecret, secretOf, textOf, writeSecret } from "./password-secret.ts";
import { reconcileTokens, type TokenPod } from "./reconcile-tokens.ts";
import { createVerifiers } from "./create-verifiers.ts";
import { type CredentialPod, sendCredentials } from "./send-credentials.ts";

const defaultGraceMs = 3_600_000;
/** Pods that do not respond are asked again when their Group reports a change, and after this time. */
const retryMs = 30_000;

/** Creates the controller of the users and passwords of Apps. Users and this controller write passwords into Secrets; nothing else does. */
export function createCredentialController(services: MiddlewareServices): ControllerDefinition {
  return defineController({
    name: "middleware-credentials",
    for: App,
    watches: [
      watchOf(Group, ({ metadata }) => {
        const name = metadata.labels?.[labels.app];
        return name === undefined ? [] : [{ namespace: metadata.namespace, name }];
      }),
      watchOf(ConfigMap, (configMap, { cache }) =>
        isPlugin(configMap)
          ? cache
              .list(App)
              .filter((app) => configMap.metadata.name === pluginConfigMapName(app.spec.plugin.name, app.spec.plugin.version))
              .map((app) => ({ namespace: app.metadata.namespace, name: app.metadata.name ?? "" }))
          : [],
      ),
      // Passwords stay out of the cache.
      watchOf(metadataOf(Secret), ({ metadata: { name, namespace } }, { cache }) =>
        cache
          .list(App, { namespace })
          .filter((app) => secretsOf(app).includes(name))
          .map((app) => ({ namespace, name: app.metadata.name ?? "" })),
      ),
    ],
    maxConcurrentReconciles: 5,
    reconcile: (request, context) => reconcile(request, context, services),
  });
}

/** Names of all Secrets with passwords of an App. */
function secretsOf(app: DeepReadonly<App>): readonly string[] {
  return ["default", ...(app.spec.users ?? []).map(({ name }) => name)].map((user) => secretOf(app, user));
}

async function reconcile(
  request: Request,
  context: ReconcileContext,
  { agents, generateSecret, plugins }: MiddlewareServices,
): Promise<Result | undefined> {
  const { cache, client, clock, signal } = context;
  const app = cache.get(App, request);
  if (app === undefined || app.metadata.deletionTimestamp !== undefined) return undefined;
  const { namespace } = request;
  const plugin = plugins.find(cache, namespace, app.spec.plugin);
  // A change of the plugin or of the App triggers this again.
  if ("problem" in plugin) return undefined;
  const secret = await ignoreNotFound(client.get(Secret, { namespace, name: accessSecretName(request.name) }, { signal }));
  const access = agentAccessOf(secret?.data);
  // The App controller creates it, which triggers this again.
  if (secret === undefined || access === undefined) return undefined;
  const users = new Map([["default", []], ...(app.spec.users ?? []).map(({ name, rules }) => [name, rules] as const)]);
  const secrets = await readSecrets(app, users.keys(), context, generateSecret);
  const state = parseCredentialState(textOf(secret, credentialsKey));
  const pods = await readPods(app, context, agents, access);
  const grace = app.spec.passwordRotation?.gracePeriod;
  const graceMs = grace === undefined ? defaultGraceMs : parseDuration(grace);
  const tokens = await reconcileTokens(app, { secret, access, pods, graceMs }, context, agents);
  if (tokens.kind === "changed") return tokens.result;
  if (pods.some(({ isUnsupported }) => isUnsupported)) {
    // The App may use a program without users. Otherwise, a restart of the Pods replaces their agents.
    const isWanted = users.size > 1 || [...secrets.values()].some((secret) => textOf(secret, passwordKeys.next) !== undefined);
    const note = "the agents of the Pods do not support users and rotated passwords: restart the Pods if their program does";
    if (isWanted) context.events.event(app, { type: "Warning", reason: "UsersNotSupported", note });
    return undefined;
  }
  const stored = new Map([...secrets].flatMap(([user, secret]) => passwordOf(app, user, secret)));
  const step = decideCredentials({
    ...{ state, users, now: clock.now(), pods: pods.map(({ reported }) => reported), newId: randomUUID() },
    secrets: stored,
    defaultLogin: plugin.defaultLogin,
    createVerifier: plugin.defaultLogin === undefined ? () => "" : await createVerifiers(stored, state),
    graceMs,
  });
  switch (step.kind) {
    case "record":
      if (await writeSecret(context, secret, { [credentialsKey]: JSON.stringify(step.state) }))
        reportUnpublished(app, { before: state, after: step.state }, context);
      return undefined;
    case "publish":
      await publishAll(app, step.users, secrets, context);
      return undefined;
    case "send":
      return send(app, { secret, access, state, pods }, context, agents);
    case "wait": {
      const untilMs = Math.min(step.untilMs ?? Number.POSITIVE_INFINITY, tokens.untilMs ?? Number.POSITIVE_INFINITY);
      return Number.isFinite(untilMs) ? { requeueAfterMs: Math.max(untilMs - clock.now(), 1) } : undefined;
    }
  }
}

/** The Secrets of users. A missing one is created, unless the user has one of its own. */
async function readSecrets(
  app: DeepReadonly<App>,
  users: Iterable<string>,
  { client, signal }: ReconcileContext,
  generateSecret: () => string,
): Promise<ReadonlyMap<string, ReadSecret>> {
  const secrets = new Map<string, ReadSecret>();
  const { namespace = "", name: appName = "" } = app.metadata;
  for (const user of users) {
    const name = secretOf(app, user);
    let secret = await ignoreNotFound(client.get(Secret, { namespace, name }, { signal }));
    if (secret === undefined && name === userSecretName(appName, user)) {
      const created = {
        metadata: { name, namespace, labels: { [labels.app]: appName }, ownerReferences: [controllerReference(app)] },
        type: "Opaque",
        stringData: { username: user, [passwordKeys.current]: generateSecret() },
      };
      try {
        secret = await client.create(Secret, created, { fieldManager, signal });
      } catch (error) {
        if (!isAlreadyExists(error)) throw error;
      }
    }
    if (secret !== undefined) secrets.set(user, secret);
  }
  return secrets;
}

async function readPods(
  app: DeepReadonly<App>,
  { cache, signal }: ReconcileContext,
  agents: AgentClient,
  access: AgentAccess,
): Promise<readonly (CredentialPod & TokenPod)[]> {
  const { namespace, name } = app.metadata;
  const groups = cache.list(Group, { namespace, labelSelector: `${labels.app}=${name}` });
  // Pods without a role have no agent.
  const pods = groups.flatMap(({ status }) => status?.pods ?? []).filter(({ role }) => role !== undefined);
  const asked = await Promise.all(
    pods.map(async ({ name: pod, ip, role }): Promise<CredentialPod & TokenPod> => {
      const answer = ip === undefined ? undefined : await agents.role(ip, access, signal);
      const reported = answer?.credentials;
      const isKnown = answer !== undefined && answer.role !== "unknown";
      const isUnsupported = isKnown && reported === undefined;
      const tokens = answer?.tokens;
      const cannotRotate = isKnown && tokens === undefined;
      return { name: pod, ip, isPrimary: role === "primary", reported, isUnsupported, tokens, cannotRotate };
    }),
  );
  // Replicas authenticate at the primary: it accepts a password first.
  return asked.sort((a, b) => Number(b.isPrimary) - Number(a.isPrimary));
}

interface Recorded {
  readonly secret: ReadSecret;
  readonly access: AgentAccess;
  readonly state: CredentialState | undefined;
  readonly pods: readonly CredentialPod[];
}

async function send(
  app: DeepReadonly<App>,
  { secret, access, state, pods }: Recorded,
  context: ReconcileContext,
  agents: AgentClient,
): Promise<Result | undefined> {
  const password = textOf(secret, passwordKeys.current);
  if (state === undefined || password === undefined) return undefined;
  const { current = "", logins } = state.users["default"] ?? {};
  const login = logins?.[current]?.name;
  const problem = await sendCredentials(pods, state, { agents, access, password, login });
  if (problem === undefined) return { requeueAfterMs: 1 };
  if (problem.isRejected && state.problem !== problem.message) {
    context.events.event(app, { type: "Warning", reason: "UserRejected", note: problem.message });
    await writeSecret(context, secret, { [credentialsKey]: JSON.stringify({ ...state, problem: problem.message }) });
  }
  return { requeueAfterMs: retryMs };
}

function passwordOf(app: DeepReadonly<App>, user: string, secret: ReadSecret): readonly (readonly [string, StoredPassword])[] {
  const password = textOf(secret, passwordKeys.current);
  if (password === undefined) return [];
  const nextPassword = textOf(secret, passwordKeys.next);
  const login = textOf(secret, passwordKeys.login);
  const optional = { ...(nextPassword === undefined ? {} : { nextPassword }), ...(login === undefined ? {} : { login }) };
  const isProvided = app.spec.users?.some(({ name, passwordSecret }) => name === user && passwordSecret !== undefined) ?? false;
  return [[user, { password, ...optional, isProvided, isImmutable: secret.immutable === true }]];
}
