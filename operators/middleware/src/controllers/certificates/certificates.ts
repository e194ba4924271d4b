import {
  controllerReference,
  type DeepReadonly,
  ignoreNotFound,
  isAlreadyExists,
  isJsonObject,
  parseJsonObject,
} from "@keelson/api-machinery";
import { ConfigMap, Pod, type PodObject, Secret, type SecretObject, Service } from "@keelson/api-machinery/kinds";
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
import { agentName, certificateHash, type TlsMode } from "@keelson/middleware-agent";
import { App } from "../../api/app.ts";
import { Group } from "../../api/group.ts";
import {
  accessSecretName,
  agentKeys,
  annotations,
  authorityName,
  certificateSecretName,
  labels,
  tlsAnnotation,
} from "../../api/names.ts";
import { type AgentAccess, agentAccessOf } from "../agent-access.ts";
import { createRoleWatches, type RoleWatches } from "../group/role-watches.ts";
import type { MiddlewareServices } from "../services.ts";
import { type CertificateFacts, decideCertificates, fulfils, type RotationRequest } from "./certificate-decision.ts";
import { programHosts } from "./certificate-hosts.ts";
import {
  bundleOf,
  type CertificateState,
  coversHosts,
  expiryOf,
  hasValidLeaves,
  parseCertificateState,
  textsOf,
} from "./certificate-state.ts";
import { decoded, readOwn, recover } from "./read-certificates.ts";
import { type Subjects, takeStep } from "./issue-certificates.ts";
import { fieldManager, foreignObject, publishCertificates, writeTexts } from "./publish-certificates.ts";

const defaultGraceMs = 24 * 60 * 60 * 1000;
/** A timer cannot be longer. */
const maxWaitMs = 24 * 60 * 60 * 1000;

/** Creates the controller of the certificates of Apps. It creates the authority of each App with TLS, and replaces what expires. */
export function createCertificateController(services: MiddlewareServices): ControllerDefinition {
  const watches = createRoleWatches(services.agents);
  const appOf = ({ metadata }: { readonly metadata: DeepReadonly<PodObject>["metadata"] }): readonly Request[] => {
    const name = metadata.labels?.[labels.app];
    return name === undefined ? [] : [{ namespace: metadata.namespace, name }];
  };
  return defineController({
    name: "middleware-certificates",
    for: App,
    watches: [
      watchOf(Group, appOf),
      watchOf(Service, appOf),
      watchOf(Pod, appOf),
      // Keys stay out of the cache.
      watchOf(metadataOf(Secret), ({ metadata: { name, namespace } }, { cache }) =>
        cache
          .list(App, { namespace })
          .filter((app) => secretsOf(app).includes(name))
          .map((app) => ({ namespace, name: app.metadata.name ?? "" })),
      ),
      watchOf(ConfigMap, ({ metadata: { name, namespace } }, { cache }) =>
        cache
          .list(App, { namespace })
          .filter((app) => authorityName(app.metadata.name ?? "") === name)
          .map((app) => ({ namespace, name: app.metadata.name ?? "" })),
      ),
    ],
    triggers: [{ start: ({ enqueue }) => watches.start(enqueue) }],
    maxConcurrentReconciles: 5,
    reconcile: (request, context) => reconcile(request, context, services, watches),
  });
}

/** Names of all Secrets with certificates of an App. */
function secretsOf({ metadata: { name = "" }, spec }: DeepReadonly<App>): readonly (string | undefined)[] {
  return [accessSecretName(name), certificateSecretName(name), authorityName(name), spec.tls?.secretName];
}

async function reconcile(
  request: Request,
  context: ReconcileContext,
  services: MiddlewareServices,
  watches: RoleWatches,
): Promise<Result | undefined> {
  const { cache, client, signal } = context;
  const { namespace, name } = request;
  const app = cache.get(App, request);
  const labelSelector = `${labels.app}=${name}`;
  const groups = cache.list(Group, { namespace, labelSelector });
  const all = cache.list(Pod, { namespace, labelSelector });
  const pods = all.filter(({ metadata }) => metadata.annotations?.[tlsAnnotation] !== undefined);
  const isUsed = groups.some(({ spec }) => spec.tls !== undefined);
  const isKnown = cache.get(metadataOf(Secret), { namespace, name: authorityName(name) }) !== undefined;
  // Services are created before Pods, which wait for their certificate: it is valid for all names.
  const isDue = app !== undefined && app.metadata.deletionTimestamp === undefined && (isKnown || (isUsed && pods.length > 0));
  const access = isDue
    ? await ignoreNotFound(client.get(Secret, { namespace, name: accessSecretName(name) }, { signal }))
    : undefined;
  if (app === undefined || access === undefined || (!isUsed && pods.length === 0)) {
    watches.follow(request, [], { token: "" });
    // No Pod uses TLS now.
    if (access !== undefined) await writeTexts(context, access, { [agentKeys.mode]: null });
    return undefined;
  }
  const isRequired = groups.every(({ spec }) => spec.tls?.mode === "require") && pods.length === all.length;
  return maintain({ app, access, groups, pods, mode: isRequired ? "require" : "prefer" }, context, services, watches);
}

interface SecuredApp {
  readonly app: DeepReadonly<App>;
  readonly access: DeepReadonly<SecretObject>;
  readonly groups: readonly DeepReadonly<Group>[];
  /** Those with TLS. */
  readonly pods: readonly DeepReadonly<PodObject>[];
  /** How controllers connect to agents: without a fallback once all Pods have TLS. */
  readonly mode: TlsMode;
}

/** Publishes the recorded certificates, then takes the next step. Each step is recorded before it is published. */
async function maintain(
  secured: SecuredApp,
  context: ReconcileContext,
  services: MiddlewareServices,
  watches: RoleWatches,
): Promise<Result | undefined> {
  const { app, access, groups, pods, mode } = secured;
  const { client, cache, clock, signal } = context;
  const { namespace = "", name = "" } = app.metadata;
  const secretName = groups.find(({ spec }) => spec.tls !== undefined)?.spec.tls?.secretName;
  const foreign = await foreignObject(app, secretName !== undefined, context);
  if (foreign !== undefined) {
    context.events.event(app, { type: "Warning", reason: "CertificateNameTaken", note: foreign });
    return undefined;
  }
  const recorded = await ignoreNotFound(client.get(Secret, { namespace, name: authorityName(name) }, { signal }));
  const state = recorded && parseCertificateState(decoded(recorded.data));
  const recovered = state === undefined ? await recover(app, access, secretName !== undefined, context) : undefined;
  const own = secretName === undefined ? undefined : await readOwn(app, secretName, context);
  const exposed = cache.list(Service, { namespace, labelSelector: `${labels.app}=${name}` });
  const subjects: Subjects = { app: name, agent: agentName(namespace, name), hosts: programHosts(exposed, pods) };
  let isApplied = false;
  if (state !== undefined) {
    const issued = { authorities: bundleOf(state), ...state.program };
    const agent = { authorities: bundleOf(state), ...state.agent };
    const program = secretName === undefined ? issued : own;
    const published = { agent, program: own === undefined && secretName === undefined ? issued : undefined, mode };
    await publishCertificates(app, access, { ...published, authorities: program?.authorities }, context);
    const isReplacing = state.nextAuthority !== undefined || state.previousAuthority !== undefined;
    const reached = isReplacing ? pods.flatMap(runningPod) : [];
    const agents = agentAccessOf(access.data) ?? { token: "" };
    watches.follow({ namespace, name }, reached, agents);
    isApplied =
      isReplacing && program !== undefined && reached.length === pods.length
        ? await haveAll(reached, certificateHash([agent, program]), agents, services, signal)
        : false;
  }
  const now = clock.now();
  const grace = app.spec.tls?.gracePeriod;
  const request = requestOf(app);
  const step = decideCertificates({
    ...{ facts: state && factsOf(state, subjects, now), request, isApplied, isRecoverable: recovered !== undefined, now },
    graceMs: grace === undefined ? defaultGraceMs : parseDuration(grace),
  });
  if (step.kind === "wait") return { requeueAfterMs: Math.min(Math.max(step.untilMs - now, 1), maxWaitMs) };
  const rotated = request !== undefined && fulfils(step.kind, request) ? request.id : undefined;
  const next = await takeStep(step.kind, state ?? recovered, subjects, { now, rotated });
  if (await record(app, recorded, next, context))
    context.events.event(app, { type: "Normal", reason: "CertificatesChanged", note: notes[step.kind] });
  return { requeueAfterMs: 1 };
}

const notes = {
  create: "created an authority and certificates",
  recover: "the Secret with the authority was lost: created the next authority, which clients must trust before it signs",
  issue: "issued certificates",
  stage: "created the next authority, which clients must trust before it signs",
  promote: "the next authority signs; the previous one is trusted until its grace period ends",
  drop: "the previous authority is no longer trusted",
} as const;

function factsOf(state: CertificateState, { hosts }: Subjects, now: number): CertificateFacts {
  return {
    authorityExpiresMs: expiryOf(state.authority),
    leavesExpireMs: Math.min(expiryOf(state.agent), expiryOf(state.program)),
    areLeavesValid: hasValidLeaves(state, now) && coversHosts(state.program, hosts),
    isKeyLost: state.authority.key === "",
    hasNextAuthority: state.nextAuthority !== undefined,
    hasPreviousAuthority: state.previousAuthority !== undefined,
    changedMs: state.changedMs,
    rotated: state.rotated,
  };
}

/** Records a state, unless another one was recorded in the meantime. Resolves to whether it was recorded. */
async function record(
  app: DeepReadonly<App>,
  recorded: DeepReadonly<SecretObject> | undefined,
  state: CertificateState,
  context: ReconcileContext,
): Promise<boolean> {
  if (recorded !== undefined) return writeTexts(context, recorded, textsOf(state));
  const { name = "", namespace = "" } = app.metadata;
  const stringData = Object.fromEntries(
    Object.entries(textsOf(state)).flatMap(([key, text]) => (text === null ? [] : [[key, text]])),
  );
  const secret = {
    metadata: {
      name: authorityName(name),
      namespace,
      labels: { [labels.app]: name },
      ownerReferences: [controllerReference(app)],
    },
    type: "Opaque",
    stringData,
  };
  try {
    await context.client.create(Secret, secret, { fieldManager, signal: context.signal });
    return true;
  } catch (error) {
    if (!isAlreadyExists(error)) throw error;
    return false;
  }
}

/** Whether all Pods report these certificates. */
async function haveAll(
  pods: readonly { readonly ip: string }[],
  hash: string,
  access: AgentAccess,
  { agents }: MiddlewareServices,
  signal: AbortSignal,
): Promise<boolean> {
  const roles = await Promise.all(pods.map(({ ip }) => agents.role(ip, access, signal)));
  return roles.every((role) => role?.certificates === hash);
}

function runningPod({ metadata: { uid = "" }, status }: DeepReadonly<PodObject>): readonly { uid: string; ip: string }[] {
  return status?.phase === "Running" && status.podIP !== undefined ? [{ uid, ip: status.podIP }] : [];
}

/** The rotation that a user has requested. Undefined if there is none, or none that can be read. */
function requestOf({ metadata }: DeepReadonly<App>): RotationRequest | undefined {
  const text = metadata.annotations?.[annotations.certificateControl];
  const value = text === undefined ? undefined : parseJsonObject(text);
  if (!isJsonObject(value) || typeof value["id"] !== "string") return undefined;
  return { id: value["id"], authority: value["authority"] === true };
}
