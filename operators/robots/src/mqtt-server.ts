import { randomUUID } from "node:crypto";
import { readFile } from "node:fs/promises";
import { rootCertificates } from "node:tls";
import { type DeepReadonly, jsonEquals } from "@keelson/api-machinery";
import { type Clock, sleep } from "@keelson/api-machinery/time";
import { type EventRecorder, readOf } from "@keelson/controller";
import { createEventRecorder } from "@keelson/controller/events";
import { type FlagValues, type RunningServer, type ServerContext, type ServerDefinition } from "@keelson/operator";
import { invalidFlag, UsageError } from "@keelson/operator/flags";
import { Robot } from "./api/robot.ts";
import { joinTokenSecret } from "./api/names.ts";
import { mqttFlags, serverFlags } from "./flags.ts";
import { type Bridge, startBridge } from "./bridge/bridge.ts";
import { Joins } from "./bridge/registration/joins.ts";
import { signalReads } from "./bridge/signals/task-signals.ts";
import type { MqttConnectionOptions } from "./bridge/mqtt-connection.ts";
import { RejectionEvents } from "./bridge/registration/rejection-events.ts";
import { type Broker, startBroker } from "./broker/broker.ts";
import { revokedCredential } from "./broker/broker-options.ts";
import type { BrokerTls } from "./broker/tls-splitter.ts";
import { ExecSessions } from "./exec/exec-sessions.ts";
import { type RunningExecServer, startExecServer } from "./exec/start-exec-server.ts";
import { authorityDependents } from "./identity/authority/authority-dependents.ts";
import { AuthorityRotation, type BrokerTrust } from "./identity/authority/authority-rotation.ts";
import { LazyAuthority } from "./identity/authority/lazy-authority.ts";
import { probeBroker } from "./identity/authority/probe-broker.ts";
import type { RobotAuthority } from "./identity/authority/robot-authority.ts";
import { isBehind } from "./identity/authority/trusting-robots.ts";
import { identityOf, isRevoked } from "./identity/robot-identity.ts";
import { ensureJoinToken, joinTokenFile } from "./identity/join-token.ts";
import { credentialAnnotation } from "./identity/robot-authentication.ts";
import { equalsSecret } from "./identity/secret.ts";
import { readTokens } from "./identity/token-store.ts";
import { taskReads } from "./controllers/indexes.ts";

const connectTimeoutMs = 10_000;

const secretType = { apiVersion: "v1", kind: "Secret" };

/** The MQTT side: the embedded broker (or an external one) and the bridge between it and the API. */
export const mqttServer: ServerDefinition = {
  name: "mqtt",
  flags: serverFlags,
  reads: [taskReads, readOf(Robot), signalReads],
  // Two bridges would send every message twice.
  needsLeaderElection: true,
  start,
};

async function start(context: ServerContext): Promise<RunningServer> {
  const { client, cache, clock, dataDir, log, onChange } = context;
  const namespace = mqttFlags.namespace.read(context.flags);
  const authority = new LazyAuthority({ client, namespace, clock, fieldManager: "robots-identity" });
  const joins = new Joins({ client, cache, namespace, clock, log, authority });
  const external = await externalBroker(context.flags, authority);
  const joinToken = await ensureJoinToken({ dataDir, client, namespace });
  const robotNamed = (name: string) => cache.get(Robot, { namespace, name });
  const events = createEventRecorder({ client, clock, random: context.random, log, controller: "robots-mqtt" });
  const rejections = new RejectionEvents({
    clock,
    events,
    regarding: (name) => robotNamed(name) ?? { ...secretType, metadata: { name: joinTokenSecret, namespace } },
  });
  const broker =
    external === undefined ? await startEmbeddedBroker(context, { authority, joins, joinToken, rejections }) : undefined;
  const url = broker?.url ?? external?.url ?? "";
  const execs = new ExecSessions({ clock, send: (...message) => bridge.send(...message) });
  const bridge: Bridge = startBridge({
    ...(external ?? { url, ...broker?.bridgeCredentials }),
    clientId: `k8s4r-server-${randomUUID().slice(0, 8)}`,
    namespace,
    client,
    cache,
    onChange,
    clock,
    log,
    isJoinToken: equalsSecret(joinToken),
    authority,
    joins,
    execs,
    bindsCredentials: broker !== undefined,
    events,
    onConnected: () => rotation.brokerChanged(),
  });
  let execServer: RunningExecServer | undefined;
  const rotation = startRotation(context, { authority, external, broker, bridge, events });
  const unsubscribe = followRobots(context, { broker, rotation });
  const stop = async (): Promise<void> => {
    unsubscribe();
    await rotation.stop();
    execs.stop();
    await execServer?.stop();
    // The bridge first: it must not report robots as disconnected because the broker stops.
    await bridge.stop();
    await broker?.stop();
    await events.stop();
  };
  try {
    execServer = await startExecServer(context, { sessions: execs, authority, events });
    await firstConnect(bridge.ready, clock);
  } catch (error) {
    await stop();
    throw error;
  }
  const kind = broker === undefined ? "bridge to the MQTT broker" : "MQTT broker and bridge on";
  const description = `${kind} ${url}, join token in ${joinTokenFile(dataDir)}, exec on ${execServer.url}`;
  return { description, endpoints: { mqtt: url, exec: execServer.url }, stop };
}

/** Waits a while for the first connect, which may also happen later. **Errors**: rejects if the broker rejects the credentials. */
async function firstConnect(ready: Promise<void>, clock: Clock): Promise<void> {
  const timeout = new AbortController();
  try {
    await Promise.race([ready, sleep(clock, connectTimeoutMs, timeout.signal)]);
  } finally {
    timeout.abort();
  }
}

/** Closes the connection of a robot whose key was revoked or replaced, or that was deleted. Returns a function that stops it. */
function followRobots(
  { onChange, flags }: ServerContext,
  { broker, rotation }: { readonly broker: Broker | undefined; readonly rotation: AuthorityRotation },
): () => void {
  const namespace = mqttFlags.namespace.read(flags);
  return onChange(Robot, ({ object, old }) => {
    if (object.metadata.namespace !== namespace) return;
    broker?.recheck(object.metadata.name ?? "");
    if (!jsonEquals(object.status?.agentFeatures, old?.status?.agentFeatures)) rotation.robotChanged();
  });
}

interface RotationParts {
  readonly authority: LazyAuthority;
  readonly external: ExternalBroker | undefined;
  readonly broker: Broker | undefined;
  readonly bridge: Bridge;
  readonly events: EventRecorder;
}

function startRotation(context: ServerContext, parts: RotationParts): AuthorityRotation {
  const { client, cache, clock, log, random, flags } = context;
  const { authority, external, broker, bridge, events } = parts;
  const namespace = mqttFlags.namespace.read(flags);
  return new AuthorityRotation({
    ...{ client, namespace, clock, log, random, events, authority },
    async apply(current) {
      await broker?.reloadTls();
      for (const robot of cache.list(Robot, { namespace })) if (isBehind(robot, current)) bridge.respond(robot);
    },
    probe: (current) => probe(current, external, clock),
    async isPreviousNeeded({ pin }) {
      const { tokens } = await readTokens({ client, namespace, fieldManager: "robots-identity" });
      const needing = authorityDependents({ robots: cache.list(Robot, { namespace }), tokens }, pin, clock.now());
      return needing.robots.length > 0 || needing.tokens.length > 0;
    },
  });
}

interface BrokerParts {
  readonly authority: LazyAuthority;
  readonly joins: Joins;
  readonly joinToken: string;
  readonly rejections: RejectionEvents;
}

function startEmbeddedBroker(
  context: ServerContext,
  { authority, joins, joinToken, rejections }: BrokerParts,
): Promise<Broker> {
  const { cache, clock, log, flags } = context;
  const namespace = mqttFlags.namespace.read(flags);
  const robotNamed = (name: string) => cache.get(Robot, { namespace, name });
  return startBroker({
    bindAddress: mqttFlags.bindAddress.read(flags),
    port: mqttFlags.port.read(flags),
    joinToken,
    clock,
    credentialOf: (name) => credentialOf(robotNamed(name)),
    identityOf: (name) => identityOf(robotNamed(name)),
    joinProblem: (request) => joins.problem(request),
    loadTls: async () => tlsOf(await authority.get()),
    requiresTls: mqttFlags.requireTls.read(flags),
    allowsV1Agents: mqttFlags.allowV1Agents.read(flags),
    onRejected: (rejection) => rejections.record(rejection),
    log,
  });
}

/** The credential that a robot is bound to. */
function credentialOf(robot: DeepReadonly<Robot> | undefined): string | undefined {
  const credential = robot?.metadata.annotations?.[credentialAnnotation];
  return credential !== undefined && isRevoked(robot, credential) ? revokedCredential : credential;
}

function tlsOf({ server, brokerAuthority, trusted }: RobotAuthority): BrokerTls {
  const authorities = trusted.map(({ x509 }) => x509);
  return { certificate: server.certificate + brokerAuthority.certificate, key: server.key, authorities };
}

/** The embedded broker follows the authority. Of an external one that the bridge reaches in another way than robots, nothing is known: users confirm the steps. */
async function probe(authority: RobotAuthority, external: ExternalBroker | undefined, clock: Clock): Promise<BrokerTrust> {
  if (external === undefined) return { acceptsNewest: true, presentsCurrent: true };
  if (external.tls === undefined) return { acceptsNewest: false, presentsCurrent: false };
  return await probeBroker(external.url, authority, clock);
}

interface ExternalBroker {
  readonly url: string;
  /** Certificate of the bridge. Not used if a user name is configured. */
  readonly tls?: MqttConnectionOptions["tls"];
  readonly username?: string;
  readonly password?: string;
}

const bridgeTls = ({ bridge, trusted }: RobotAuthority): ReturnType<NonNullable<MqttConnectionOptions["tls"]>> => ({
  ...{ cert: bridge.certificate, key: bridge.key },
  ca: [...rootCertificates, ...trusted.map(({ certificate }) => certificate)],
});

async function externalBroker(values: FlagValues, authority: LazyAuthority): Promise<ExternalBroker | undefined> {
  const url = mqttFlags.url.read(values);
  if (url === undefined) return undefined;
  if (mqttFlags.requireTls.read(values)) {
    throw new UsageError(
      "--mqtt-require-tls applies to the embedded MQTT broker only; configure the broker of --mqtt-url to require TLS",
    );
  }
  if (!URL.canParse(url) || !["mqtt:", "mqtts:", "tcp:", "ssl:"].includes(new URL(url).protocol)) {
    throw invalidFlag(mqttFlags.url, url, "must be of the form mqtt://host:1883 or mqtts://host:8883");
  }
  const username = mqttFlags.username.read(values);
  const file = mqttFlags.passwordFile.read(values);
  let password: string | undefined;
  if (file !== undefined) {
    try {
      password = (await readFile(file, "utf8")).replace(/\r?\n$/, "");
    } catch (error) {
      throw new UsageError(`--mqtt-password-file: ${error instanceof Error ? error.message : String(error)}`, { cause: error });
    }
  }
  if (username === undefined && ["mqtts:", "ssl:"].includes(new URL(url).protocol)) {
    const first = await authority.get();
    return { url, tls: () => bridgeTls(authority.current ?? first) };
  }
  return { url, ...(username === undefined ? {} : { username }), ...(password === undefined ? {} : { password }) };
}
