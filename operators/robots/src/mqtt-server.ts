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

const waitForBrokerMs = 10_000;

const flags = {
  bindAddress: textFlag({
    name: "mqtt-bind-address",
    value: "ADDRESS",
    description: "address that the MQTT broker listens on",
    default: "127.0.0.1",
  }),
  port: portFlag({
    name: "mqtt-port",
    description: "port that the MQTT broker listens on; 0 picks a free one",
    default: "1883",
  }),
  url: textFlag({
    name: "mqtt-url",
    value: "URL",
    description: "use this MQTT broker (mqtt://, mqtts://) instead of one of its own",
  }),
  username: textFlag({ name: "mqtt-username", value: "NAME", description: "user at that broker" }),
  passwordFile: textFlag({ name: "mqtt-password-file", value: "FILE", description: "file with that user's password" }),
  namespace: textFlag({
    name: "robots-namespace",
    value: "NAME",
    description: "namespace of the robots and their tasks",
    default: "default",
  }),
};

/** The MQTT side: a broker of one's own (or somebody else's) and the bridge between it and the API. */
export const mqttServer: ServerDefinition = {
  name: "mqtt",
  flags: Object.values(flags),
  reads: [taskReads, readOf(Robot)],
  // Two bridges would tell every robot everything twice.
  needsLeaderElection: true,
  start,
};

async function start(context: ServerContext): Promise<RunningServer> {
  const { client, cache, clock, dataDir, log, onChange } = context;
  const namespace = flags.namespace.read(context.flags);
  const outside = await outsideBroker(context.flags);
  const port = flags.port.read(context.flags);
  const joinToken = await ensureJoinToken({ dataDir, client, namespace });
  const bindAddress = flags.bindAddress.read(context.flags);
  const broker: Broker | undefined =
    outside === undefined ? await startBroker({ bindAddress, port, joinToken, log }) : undefined;
  const url = broker?.url ?? outside?.url ?? "";
  const bridge: Bridge = startBridge({
    ...(outside ?? { url, ...broker?.bridgeCredentials }),
    namespace,
    client,
    cache,
    onChange,
    clock,
    log,
    isJoinToken: equalsSecret(joinToken),
  });
  const stop = async (): Promise<void> => {
    // The bridge first: to robots that lose the broker with us, nothing happened that the API should hear of.
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

/** A broker that is not there yet is waited for in the background; one that refuses us is an error. */
async function firstConnect(ready: Promise<void>, clock: Clock): Promise<void> {
  const timeout = new AbortController();
  try {
    await Promise.race([ready, sleep(clock, waitForBrokerMs, timeout.signal)]);
  } finally {
    timeout.abort();
  }
}

async function outsideBroker(values: FlagValues): Promise<{ url: string; username?: string; password?: string } | undefined> {
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
