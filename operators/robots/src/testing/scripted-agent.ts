import type { MqttClient } from "mqtt";
import type { DeviceInfo } from "../api/device-info.ts";
import { connectMqtt } from "../protocol/connect-mqtt.ts";
import {
  type AckMessage,
  agentClientId,
  type DispatchMessage,
  type LeaseAnswer,
  type LeasedTask,
  type ResponseMessage,
  type StatusMessage,
  topics,
} from "../protocol/messages.ts";

/** An agent that a test drives step by step. */
export interface ScriptedAgent {
  readonly robotId: string;
  readonly client: MqttClient;
  readonly dispatches: DispatchMessage[];
  readonly responses: ResponseMessage[];
  readonly acks: AckMessage[];
  register(extra?: Record<string, unknown>): Promise<void>;
  heartbeat(extra?: Record<string, unknown>): Promise<void>;
  /** Reports on a Task. Missing fields get defaults. */
  report(
    task: { readonly uid: string; readonly attempt?: number; readonly seq?: number },
    state: StatusMessage["state"],
    extra?: Partial<StatusMessage>,
  ): Promise<void>;
  /** Asks for leases and returns the answer. */
  requestLeases(nonce: string, tasks: readonly LeasedTask[]): Promise<LeaseAnswer>;
  /** The first past or future dispatch that matches. */
  dispatched(matches?: (message: DispatchMessage) => boolean): Promise<DispatchMessage>;
  responded(matches?: (message: ResponseMessage) => boolean): Promise<ResponseMessage>;
  acknowledged(matches?: (message: AckMessage) => boolean): Promise<AckMessage>;
  /** Disconnects; without `cleanly`, like a cut cable. */
  leave(cleanly?: boolean): Promise<void>;
}

/** Connects an agent for a test. With `online: false` it publishes no presence, like an original agent. */
export async function connectScriptedAgent(options: {
  readonly url: string;
  readonly robotId: string;
  readonly token: string;
  readonly deviceInfo?: DeviceInfo;
  readonly labels?: Record<string, string>;
  readonly online?: boolean;
  readonly username?: string;
  readonly password?: string;
}): Promise<ScriptedAgent> {
  const { url, robotId, token, deviceInfo, labels, online = true } = options;
  const client = connectMqtt(url, {
    protocolVersion: 4,
    clean: true,
    clientId: agentClientId(robotId),
    username: options.username ?? robotId,
    password: options.password ?? token,
    reconnectPeriod: 0,
    manualConnect: true,
    ...(online
      ? { will: { topic: topics.online(robotId), payload: Buffer.from('{"online":false}'), qos: 1, retain: true } }
      : {}),
  });
  const dispatches = createInbox<DispatchMessage>();
  const responses = createInbox<ResponseMessage>();
  const acks = createInbox<AckMessage>();
  const leases = createInbox<LeaseAnswer>();
  client.on("message", (topic, payload) => {
    const body: unknown = JSON.parse(payload.toString("utf8"));
    if (topic === topics.dispatch(robotId)) dispatches.add(body as DispatchMessage);
    else if (topic === topics.response(robotId)) responses.add(body as ResponseMessage);
    else if (topic === topics.leaseAnswer(robotId)) leases.add(body as LeaseAnswer);
    else acks.add(body as AckMessage);
  });
  await new Promise<void>((resolve, reject) => {
    client.once("connect", () => resolve());
    client.on("error", reject);
    client.once("close", () => reject(new Error("closed")));
    client.connect();
  });
  (client.stream as { setNoDelay?: (noDelay: boolean) => void }).setNoDelay?.(true);
  const own = [topics.response(robotId), topics.dispatch(robotId), topics.ownAcks(robotId), topics.leaseAnswer(robotId)];
  await client.subscribeAsync(own, { qos: 1 });
  const send = async (topic: string, body: unknown, retain = false): Promise<void> => {
    await client.publishAsync(topic, JSON.stringify(body), { qos: 1, retain });
  };
  if (online) await send(topics.online(robotId), { online: true }, true);
  return {
    robotId,
    client,
    dispatches: dispatches.all,
    responses: responses.all,
    acks: acks.all,
    register: (extra) =>
      send(topics.register, { robotId, token, ...(deviceInfo ? { deviceInfo } : {}), ...(labels ? { labels } : {}), ...extra }),
    heartbeat: (extra) => send(topics.heartbeat, { robotId, token, ...(deviceInfo ? { deviceInfo } : {}), ...extra }),
    report: ({ uid, attempt, seq }, state, extra) =>
      send(topics.status(robotId, uid), {
        taskUid: uid,
        robotName: robotId,
        state,
        message: `${state} here`,
        event:
          state === "completed" ? "Completed" : state === "failed" ? "Failed" : state === "deleted" ? "Deleted" : "Started",
        updatedAt: "2026-01-01T00:00:00Z",
        ...(attempt === undefined ? {} : { attempt }),
        ...(seq === undefined ? {} : { seq }),
        ...extra,
      }),
    async requestLeases(nonce, tasks) {
      await send(topics.lease(robotId), { nonce, tasks });
      return await leases.first((answer) => answer.nonce === nonce);
    },
    dispatched: (matches) => dispatches.first(matches),
    responded: (matches) => responses.first(matches),
    acknowledged: (matches) => acks.first(matches),
    async leave(cleanly = true) {
      if (cleanly) await client.endAsync();
      else {
        const closed = new Promise<void>((resolve) => client.once("close", () => resolve()));
        client.stream.destroy();
        await closed;
      }
    },
  };
}

interface Inbox<T> {
  readonly all: T[];
  add(message: T): void;
  first(matches?: (message: T) => boolean): Promise<T>;
}

function createInbox<T>(): Inbox<T> {
  const all: T[] = [];
  let waiting: { readonly matches: (message: T) => boolean; readonly resolve: (message: T) => void }[] = [];
  return {
    all,
    add(message) {
      all.push(message);
      const served = waiting.filter((each) => each.matches(message));
      waiting = waiting.filter((each) => !served.includes(each));
      for (const each of served) each.resolve(message);
    },
    first(matches = () => true) {
      const present = all.find(matches);
      return present === undefined ? new Promise((resolve) => waiting.push({ matches, resolve })) : Promise.resolve(present);
    },
  };
}
