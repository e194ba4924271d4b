import { randomUUID } from "node:crypto";
import { readFile } from "node:fs/promises";
import { type Clock, sleep } from "@keelson/api-machinery/time";
import { readOf } from "@keelson/controller";
import { type FlagValues, type RunningServer, type ServerContext, type ServerDefinition } from "@keelson/operator";
import { invalidFlag, portFlag, textFlag, UsageError } from "@keelson/operator/flags";
import { Robot } from "./api/robot.ts";
import { type Bridge, startBridge } from "./bridge/bridge.ts";
import { type Broker, startBroker } from "./broker/broker.ts";
import { ensureJoinToken, joinTokenFile } from "./identity/join-token.ts";
import { equalsSecret } from "./identity/secret.ts";
import { taskReads } from "./controllers/indexes.ts";

const connectTimeoutMs = 10_000;

const flags = {
  bindAddress: textFlag({
    name: "mqtt-bind-address",
    value: "ADDRESS",
    description: "listen address of the embedded MQTT broker",
    default: "127.0.0.1",
  }),
  port: portFlag({
    name: "mqtt-port",
    description: "port of the embedded MQTT broker; 0 picks a free one",
    default: "1883",
  }),
  url: textFlag({
    name: "mqtt-url",
    value: "URL",
    description: "external MQTT broker (mqtt://, mqtts://) to use instead of the embedded one",
  }),
  username: textFlag({ name: "mqtt-username", value: "NAME", description: "user name at the external broker" }),
  passwordFile: textFlag({
    name: "mqtt-password-file",
    value: "FILE",
    description: "file with the password at the external broker",
  }),
  namespace: textFlag({
    name: "robots-namespace",
    value: "NAME",
    description: "namespace of the robots and their tasks",
    default: "default",
  }),
};

/** The MQTT side: the embedded broker (or an external one) and the bridge between it and the API. */
export const mqttServer: ServerDefinition = {
  name: "mqtt",
  flags: Object.values(flags),
  reads: [taskReads, readOf(Robot)],
  // Two bridges would send every message twice.
  needsLeaderElection: true,
  start,
};

async function start(context: ServerContext): Promise<RunningServer> {
  const { client, cache, clock, dataDir, log, onChange } = context;
  const namespace = flags.namespace.read(context.flags);
  const external = await externalBroker(context.flags);
  const port = flags.port.read(context.flags);
  const joinToken = await ensureJoinToken({ dataDir, client, namespace });
  const bindAddress = flags.bindAddress.read(context.flags);
  const broker: Broker | undefined =
    external === undefined ? await startBroker({ bindAddress, port, joinToken, log }) : undefined;
  const url = broker?.url ?? external?.url ?? "";
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
  });
  const stop = async (): Promise<void> => {
    // The bridge first: it must not report robots as disconnected because the broker stops.
    await bridge.stop();
    await broker?.stop();
  };
  try {
    await firstConnect(bridge.ready, clock);
  } catch (error) {
    await stop();
    throw error;
  }
  const kind = broker === undefined ? "bridge to the MQTT broker" : "MQTT broker and bridge on";
  return { description: `${kind} ${url}, join token in ${joinTokenFile(dataDir)}`, endpoints: { mqtt: url }, stop };
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

interface ExternalBroker {
  readonly url: string;
  readonly username?: string;
  readonly password?: string;
}

async function externalBroker(values: FlagValues): Promise<ExternalBroker | undefined> {
  const url = flags.url.read(values);
  if (url === undefined) return undefined;
  if (!URL.canParse(url) || !["mqtt:", "mqtts:", "tcp:", "ssl:"].includes(new URL(url).protocol)) {
    throw invalidFlag(flags.url, url, "must have the form mqtt://host:1883 or mqtts://host:8883");
  }
  const username = flags.username.read(values);
  const file = flags.passwordFile.read(values);
  let password: string | undefined;
  if (file !== undefined) {
    try {
      password = (await readFile(file, "utf8")).replace(/\r?\n$/, "");
    } catch (error) {
      throw new UsageError(`--mqtt-password-file: ${error instanceof Error ? error.message : String(error)}`, { cause: error });
    }
  }
  return { url, ...(username === undefined ? {} : { username }), ...(password === undefined ? {} : { password }) };
}
