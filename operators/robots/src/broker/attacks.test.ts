import { once } from "node:events";
import { connect as connectSocket, type Socket } from "node:net";
import { createVirtualClock } from "@keelson/api-machinery/testing";
import { type Logger, silentLogger } from "@keelson/controller";
import mqtt, { type IClientOptions, type MqttClient } from "mqtt";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { topics } from "../protocol/messages.ts";
import { joinClientId } from "../identity/join-request.ts";
import { type Broker, startBroker } from "./broker.ts";
import type { RobotRejection } from "./broker-options.ts";

const uid = "00000000-0000-4000-8000-000000000001";
let broker: Broker;
let warnings: string[] = [];
const clients: MqttClient[] = [];
const sockets: Socket[] = [];

const log: Logger = { ...silentLogger, warn: (_, message) => void warnings.push(message) };

beforeEach(async () => {
  warnings = [];
  broker = await startBroker({
    port: 0,
    joinToken: "secret",
    log,
    clock: createVirtualClock(),
    maxConnections: 8,
    readTimeoutMs: 100,
  });
});

afterEach(async () => {
  for (const socket of sockets.splice(0)) socket.destroy();
  for (const client of clients.splice(0)) await client.endAsync(true);
  await broker.stop();
});

function connect(options: IClientOptions): Promise<MqttClient> {
  const client = mqtt.connect(broker.url, { protocolVersion: 4, reconnectPeriod: 0, ...options });
  clients.push(client);
  return new Promise((resolve, reject) => {
    client.once("connect", () => resolve(client));
    client.on("error", reject);
  });
}
const robotOptions = (id: string) => ({ clientId: `k8s4r-agent-${id}`, username: id, password: "secret" });
const robot = (id: string, options: IClientOptions = {}) => connect({ ...robotOptions(id), ...options });
const bridge = () => connect({ clientId: "k8s4r-server-1", ...broker.bridgeCredentials });

/** A connection that sends bytes as they are. */
async function raw(...packets: readonly Buffer[]): Promise<Socket> {
  const socket = connectSocket(Number(new URL(broker.url).port), "127.0.0.1");
  sockets.push(socket);
  socket.on("error", () => {});
  socket.resume();
  await once(socket, "connect");
  for (const each of packets) socket.write(each);
  return socket;
}
const closed = async (socket: Socket): Promise<void> => {
  if (!socket.closed) await new Promise((resolve) => socket.once("close", resolve));
};
const [connack, suback] = [0x20, 0x90];

/** Resolves when a packet of a type arrives. */
function received(socket: Socket, type: number): Promise<void> {
  return new Promise((resolve) => socket.on("data", (bytes) => bytes[0] === type && resolve()));
}
/** The next message, as its topic. */
function nextTopic(client: MqttClient): Promise<string> {
  return new Promise((resolve) => client.once("message", (topic) => resolve(topic)));
}

function length(bytes: number): Buffer {
  const out: number[] = [];
  let left = bytes;
  do {
    out.push((left % 128) | (left >= 128 ? 0x80 : 0));
    left = Math.floor(left / 128);
  } while (left > 0);
  return Buffer.from(out);
}
const packet = (type: number, body: Buffer) => Buffer.concat([Buffer.from([type]), length(body.length), body]);
function text(value: string | Buffer): Buffer {
  const bytes = Buffer.from(value);
  return Buffer.concat([Buffer.from([bytes.length >> 8, bytes.length & 0xff]), bytes]);
}
function connectPacket(id: string, { version = 4, properties = Buffer.alloc(0), password = "secret" } = {}): Buffer {
  const header = Buffer.concat([text("MQTT"), Buffer.from([version, 0xc2, 0, 60])]);
  return packet(0x10, Buffer.concat([header, properties, text(`k8s4r-agent-${id}`), text(id), text(password)]));
}
const publishPacket = (topic: string | Buffer, payload = "{}") =>
  packet(0x32, Buffer.concat([text(topic), Buffer.from([0, 1]), Buffer.from(payload)]));

/** Fails unless the broker serves another robot. */
async function expectServes(): Promise<void> {
  const [server, honest] = [await bridge(), await robot("honest")];
  await server.subscribeAsync(topics.allStatus, { qos: 1 });
  const arrived = nextTopic(server);
  await honest.publishAsync(topics.status("honest", uid), "{}", { qos: 1 });
  expect(await arrived).toBe(topics.status("honest", uid));
}

const userProperties = Buffer.concat(
  Array.from({ length: 5000 }, () => Buffer.concat([Buffer.from([0x26]), text("key"), text("value")])),
);

describe("a client without a key", () => {
  it.each([
    ["no MQTT at all", Buffer.from("GET / HTTP/1.1\r\n\r\n")],
    ["a length that does not end", Buffer.from([0x10, 0xff, 0xff, 0xff, 0xff, 0xff])],
    ["a reserved packet type", Buffer.from([0x00, 0x00])],
    ["a CONNECT without a body", Buffer.from([0x10, 0x00])],
    [
      "a CONNECT whose strings exceed it",
      packet(0x10, Buffer.concat([text("MQTT"), Buffer.from([4, 0xc2, 0, 60, 0xff, 0xff])])),
    ],
    ["an unknown protocol", packet(0x10, Buffer.concat([text("EVIL"), Buffer.from([4, 2, 0, 60]), text("x")]))],
    ["a PUBLISH before CONNECT", publishPacket(topics.status("r1", uid))],
    [
      "a keep-alive of zero",
      packet(
        0x10,
        Buffer.concat([text("MQTT"), Buffer.from([4, 0xc2, 0, 0]), text("k8s4r-agent-r1"), text("r1"), text("secret")]),
      ),
    ],
    [
      "5,000 user properties of MQTT 5",
      connectPacket("r1", { version: 5, properties: Buffer.concat([length(userProperties.length), userProperties]) }),
    ],
    [
      "extreme properties of MQTT 5",
      // Session expiry, receive maximum 0, maximum packet size 0, topic alias maximum.
      connectPacket("r1", {
        version: 5,
        properties: packet(0, Buffer.from([0x11, 255, 255, 255, 255, 0x21, 0, 0, 0x27, 0, 0, 0, 0, 0x22, 255, 255])).subarray(
          1,
        ),
      }),
    ],
  ])("is disconnected if it sends %s", async (_, bytes) => {
    await closed(await raw(bytes));
    await expectServes();
  });

  it("cannot keep others out with connections that never complete CONNECT", async () => {
    const stalled: Socket[] = [];
    for (let count = 0; count < 20; count++) stalled.push(await raw(Buffer.from([0x10, 0x7f])));
    await expectServes();
    await Promise.all(stalled.slice(0, 12).map(closed));
  });

  it("cannot flood the log", async () => {
    for (let count = 0; count < 30; count++) await closed(await raw(connectPacket(`r${count}`, { password: "wrong" })));
    expect(warnings.length).toBeLessThanOrEqual(10);
  });
});

describe("a broker that requires TLS", () => {
  it("rejects robots without TLS, including those that join, with the reason", async () => {
    await broker.stop();
    const rejections: RobotRejection[] = [];
    const onRejected = (rejection: RobotRejection) => rejections.push(rejection);
    broker = await startBroker({ port: 0, joinToken: "secret", log, requiresTls: true, onRejected });
    await expect(robot("r1")).rejects.toThrow(/Not authorized/i);
    await expect(robot("r2", { clientId: joinClientId("r2") })).rejects.toThrow(/Not authorized/i);
    expect(rejections).toMatchObject([
      { robotId: "r1", reason: "TlsRequired" },
      { robotId: "r2", reason: "TlsRequired" },
    ]);
    await bridge();
  });
});

describe("a robot", () => {
  it.each([
    ["a truncated topic", packet(0x32, Buffer.from([0, 200, 1, 2]))],
    ["an empty topic", publishPacket("")],
    ["a topic with a NUL", publishPacket(`${topics.online("r1")}\0`)],
    ["a topic that is not UTF-8", publishPacket(Buffer.from([0xed, 0xa0, 0x80]))],
    ["a topic with empty levels", publishPacket(`k8s4r/robots/r1//tasks/${uid}/status`)],
    ["a $SYS topic", publishPacket("$SYS/x/heartbeat")],
    ["QoS 3", packet(0x36, Buffer.concat([text(topics.online("r1")), Buffer.from([0, 1])]))],
    ["QoS 2", packet(0x34, Buffer.concat([text(topics.status("r1", uid)), Buffer.from([0, 1]), Buffer.alloc(200_000)]))],
    ["a second CONNECT", connectPacket("r1")],
    ["a SUBSCRIBE without topics", packet(0x82, Buffer.from([0, 1]))],
    ["a packet of the server", packet(0x20, Buffer.from([0, 0]))],
  ])("is disconnected if it sends %s", async (_, bytes) => {
    await closed(await raw(connectPacket("r1"), bytes));
    await expectServes();
  });

  it("is disconnected if it floods the broker with pings, acknowledgements or subscriptions", async () => {
    const floods = [
      Buffer.from([0xc0, 0]),
      packet(0x40, Buffer.from([0, 9])),
      packet(0x82, Buffer.concat([Buffer.from([0, 1]), text(topics.dispatch("r1")), Buffer.from([1])])),
      packet(0xa2, Buffer.concat([Buffer.from([0, 1]), text("x")])),
    ];
    for (const flood of floods) {
      const socket = await raw(connectPacket("r1"));
      for (let count = 0; count < 20 && !socket.closed; count++)
        socket.write(Buffer.concat(Array.from({ length: 1000 }, () => flood)));
      await closed(socket);
    }
    await expectServes();
  });

  it("is disconnected if one SUBSCRIBE names thousands of topics, and does not flood the log", async () => {
    const filters = Array.from({ length: 20_000 }, (_, index) => Buffer.concat([text(index.toString(36)), Buffer.from([0])]));
    const socket = await raw(connectPacket("r1"));
    await received(socket, connack);
    socket.write(packet(0x82, Buffer.concat([Buffer.from([0, 1]), ...filters])));
    await closed(socket);
    expect(warnings.length).toBeLessThanOrEqual(20);
    await expectServes();
  });

  it.each(["$share/g/k8s4r/#", "$SYS/#", "+/+/+/+/+", "k8s4r/robots/r1/tasks/+/status", "k8s4r//robots", "k8s4r/robots/r1/#"])(
    "may not subscribe to %s",
    async (filter) => {
      const r1 = await robot("r1");
      await expect(r1.subscribeAsync(filter, { qos: 1 })).rejects.toThrow(/subscribe/i);
    },
  );

  it("does not receive messages of others by a subscription of a persistent session", async () => {
    const server = await bridge();
    const thief = await robot("r1", { clean: false });
    await thief.subscribeAsync([topics.dispatch("r1"), "k8s4r/#"], { qos: 1 }).catch(() => {});
    await thief.endAsync(true);
    await server.publishAsync(topics.dispatch("r2"), "secret of r2", { qos: 1 });
    const topicsRead: string[] = [];
    const again = mqtt.connect(broker.url, { protocolVersion: 4, reconnectPeriod: 0, ...robotOptions("r1"), clean: false });
    clients.push(again);
    again.on("message", (topic) => topicsRead.push(topic));
    await new Promise<void>((resolve) => again.once("connect", () => resolve()));
    await again.subscribeAsync(topics.dispatch("r1"), { qos: 1 });
    const own = nextTopic(again);
    await server.publishAsync(topics.dispatch("r1"), "{}", { qos: 1 });
    await own;
    expect(topicsRead).toEqual([topics.dispatch("r1")]);
  });

  it.each([topics.online("r2"), topics.dispatch("r2"), "$SYS/x", "k8s4r/robots/r1/tasks/dispatch", "#"])(
    "leaves no last will on %s",
    async (topic) => {
      const server = await bridge();
      await server.subscribeAsync(["#", "$SYS/x"], { qos: 1 });
      const topicsRead: string[] = [];
      server.on("message", (each) => topicsRead.push(each));
      const r1 = await robot("r1", { will: { topic, payload: Buffer.from("{}"), qos: 1, retain: true } }).catch(
        () => undefined,
      );
      r1?.stream.destroy();
      await expectServes();
      expect(topicsRead.filter((each) => each !== topics.status("honest", uid))).toEqual([]);
    },
  );

  it("does not stall the messages of others if it does not read", async () => {
    const [server, other] = [await bridge(), await robot("other")];
    await other.subscribeAsync(topics.dispatch("other"), { qos: 1 });
    const subscription = Buffer.concat([Buffer.from([0, 1]), text(topics.dispatch("slow")), Buffer.from([1])]);
    const slow = await raw(connectPacket("slow"));
    await received(slow, connack);
    slow.write(packet(0x82, subscription));
    await received(slow, suback);
    slow.pause();
    for (let count = 0; count < 200; count++) server.publish(topics.dispatch("slow"), Buffer.alloc(100_000), { qos: 1 });
    const arrived = nextTopic(other);
    server.publish(topics.dispatch("other"), "{}", { qos: 1 });
    await arrived;
  });
});
