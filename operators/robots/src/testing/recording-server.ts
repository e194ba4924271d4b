import { randomUUID } from "node:crypto";
import type { MqttClient } from "mqtt";
import type { Broker } from "../broker/broker.ts";
import { connectMqtt } from "../protocol/connect-mqtt.ts";
import { type LeaseRequest, type RegisterMessage, type StatusMessage, topics } from "../protocol/messages.ts";

/** The server's side: records what the agent sends and sends messages to it. */
export interface RecordingServer {
  readonly registrations: readonly RegisterMessage[];
  readonly statuses: readonly StatusMessage[];
  readonly online: readonly boolean[];
  status(matches: (status: StatusMessage) => boolean): Promise<StatusMessage>;
  registered(count: number): Promise<void>;
  send(action: "create" | "delete", uid: string, attempt: number, spec?: object): Promise<void>;
  ack(status: StatusMessage): Promise<void>;
  /** The first lease request, past or future. */
  leaseRequest(): Promise<LeaseRequest>;
  grant(request: LeaseRequest): Promise<void>;
  /** Changes the robot's labels. */
  label(labels: Readonly<Record<string, string>>): Promise<void>;
  /** Tells the agent that the robot is bound to its credential. */
  bind(): Promise<void>;
  leave(): Promise<void>;
}

/** Connects the server's side of a robot to a broker. */
export async function startRecordingServer(
  broker: Broker,
  robotId: string,
  options: { readonly acknowledges: boolean },
): Promise<RecordingServer> {
  const client = createClient(broker);
  const registrations: RegisterMessage[] = [];
  const statuses: StatusMessage[] = [];
  const online: boolean[] = [];
  const requests: LeaseRequest[] = [];
  let changed: () => void = () => {};
  // A publish that the end of the test or the broker cuts off does not matter.
  const send = (topic: string, body: object): Promise<unknown> =>
    client.publishAsync(topic, JSON.stringify(body), { qos: 1 }).catch(() => {});
  const ack = async ({ taskUid, attempt, seq }: StatusMessage): Promise<void> => {
    await send(topics.ack(robotId, taskUid), { taskUid, attempt, seq });
  };
  client.on("message", (topic, payload) => {
    const body = JSON.parse(payload.toString());
    if (topic === topics.register) {
      registrations.push(body);
      void send(topics.response(robotId), { success: true, message: "ok" });
    } else if (topic === topics.online(robotId)) {
      online.push(body.online);
    } else if (topic === topics.lease(robotId)) {
      requests.push(body);
    } else {
      statuses.push(body);
      if (options.acknowledges) void ack(body);
    }
    changed();
  });
  client.on("error", () => {});
  const connected = new Promise<unknown>((resolve) => client.once("connect", resolve));
  client.connect();
  await connected;
  await client.subscribeAsync([topics.register, topics.allStatus, topics.allOnline, topics.allLeases], { qos: 1 });
  const until = async (holds: () => boolean): Promise<void> => {
    while (!holds()) {
      await new Promise<void>((resolve) => {
        changed = resolve;
      });
    }
  };
  return {
    registrations,
    statuses,
    online,
    async status(matches) {
      await until(() => statuses.some(matches));
      return statuses.find(matches) as StatusMessage;
    },
    registered: (count) => until(() => registrations.length >= count),
    ack,
    ...actionsOf(robotId, send, async () => {
      await until(() => requests.length > 0);
      return requests[0] as LeaseRequest;
    }),
    leave: () => client.endAsync(true),
  };
}

type Actions = Pick<RecordingServer, "send" | "leaseRequest" | "grant" | "label" | "bind">;

function actionsOf(
  robotId: string,
  send: (topic: string, body: object) => Promise<unknown>,
  leaseRequest: Actions["leaseRequest"],
): Actions {
  return {
    async send(action, uid, attempt, spec) {
      const isLeased = spec !== undefined && "disconnect" in spec;
      const task = { metadata: { uid }, spec, status: { attempt, ...(isLeased ? { lease: { attempt } } : {}) } };
      await send(topics.dispatch(robotId), { action, task });
    },
    leaseRequest,
    async grant({ nonce, tasks }) {
      await send(topics.leaseAnswer(robotId), { nonce, granted: tasks, refused: [] });
    },
    async label(labels) {
      await send(topics.response(robotId), { success: true, message: "ok", labels });
    },
    async bind() {
      await send(topics.response(robotId), { success: true, message: "ok", isCredentialBound: true });
    },
  };
}

function createClient(broker: Broker): MqttClient {
  return connectMqtt(broker.url, {
    protocolVersion: 4,
    reconnectPeriod: 0,
    manualConnect: true,
    clientId: `server-${randomUUID()}`,
    ...broker.bridgeCredentials,
  });
}
