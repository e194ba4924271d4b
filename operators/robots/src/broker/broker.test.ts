import { createServer } from "node:net";
import { createVirtualClock } from "@keelson/api-machinery/testing";
import { silentLogger } from "@keelson/controller";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import mqtt, { type MqttClient } from "mqtt";
import { topics } from "../protocol/messages.ts";
import { sha256Hex } from "../identity/secret.ts";
import { publishLimit } from "./keyed-rates.ts";
import { type Broker, startBroker } from "./broker.ts";
import { maxPacketBytes, type RobotRejection } from "./broker-options.ts";

const uid = "00000000-0000-4000-8000-000000000001";
let broker: Broker;
const clients: MqttClient[] = [];

beforeEach(async () => {
  broker = await startBroker({ port: 0, joinToken: "secret", log: silentLogger });
});

afterEach(async () => {
  for (const client of clients.splice(0)) await client.endAsync(true);
  await broker.stop();
});

/** Connects; rejects with the broker's reason. */
function connect(options: { clientId: string; username?: string; password?: string }): Promise<MqttClient> {
  const client = mqtt.connect(broker.url, { protocolVersion: 4, reconnectPeriod: 0, ...options });
  clients.push(client);
  return new Promise((resolve, reject) => {
    client.once("connect", () => resolve(client));
    client.on("error", reject);
  });
}
const robot = (id: string) => connect({ clientId: `k8s4r-agent-${id}`, username: id, password: "secret" });
const bridge = () => connect({ clientId: "k8s4r-server-1", ...broker.bridgeCredentials });
const closed = (client: MqttClient) => new Promise<string>((resolve) => client.once("close", () => resolve("closed")));

describe("the embedded broker", () => {
  it.each([
    ["no credentials (S1)", { clientId: "k8s4r-agent-r1" }],
    ["a wrong token (S3)", { clientId: "k8s4r-agent-r1", username: "r1", password: "wrong" }],
    ["another robot's client id (S4)", { clientId: "k8s4r-agent-r2", username: "r1", password: "secret" }],
    [
      "the bridge's name and the join token",
      { clientId: "k8s4r-agent-k8s4r-server", username: "k8s4r-server", password: "secret!" },
    ],
    ["a name that is not a robot id (S5)", { clientId: "k8s4r-agent-#", username: "#", password: "secret" }],
  ])("rejects a connection with %s", async (_, options) => {
    await expect(connect(options)).rejects.toThrow(/Not authorized/i);
  });

  it("reports a rejected robot with the reason", async () => {
    await broker.stop();
    const rejections: RobotRejection[] = [];
    const onRejected = (rejection: RobotRejection) => rejections.push(rejection);
    broker = await startBroker({ port: 0, joinToken: "secret", log: silentLogger, onRejected });
    await expect(connect({ clientId: "k8s4r-agent-r1", username: "r1", password: "wrong" })).rejects.toThrow();
    expect(rejections).toMatchObject([{ robotId: "r1", reason: "WrongJoinToken" }]);
  });

  it("does not let the join token or another robot impersonate a robot that has joined", async () => {
    await broker.stop();
    const credentialOf = (robotId: string) => sha256Hex(`credential of ${robotId}`);
    broker = await startBroker({ port: 0, joinToken: "secret", log: silentLogger, credentialOf });
    for (const password of ["secret", "credential of r2"]) {
      await expect(connect({ clientId: "k8s4r-agent-r1", username: "r1", password })).rejects.toThrow(/Not authorized/i);
    }
    await connect({ clientId: "k8s4r-agent-r1", username: "r1", password: "credential of r1" });
  });

  it("admits an original agent, which sends no user name and token, only with allowsV1Agents", async () => {
    await broker.stop();
    broker = await startBroker({ port: 0, joinToken: "secret", log: silentLogger, allowsV1Agents: true });
    const r1 = await connect({ clientId: "k8s4r-agent-r1" });
    await r1.subscribeAsync([topics.response("r1"), topics.dispatch("r1"), "k8s4r/robots/r1/tasks/state"], { qos: 1 });
    await r1.publishAsync(topics.register, JSON.stringify({ robotId: "r1", token: "secret" }), { qos: 1 });
    await expect(r1.subscribeAsync(topics.dispatch("r2"), { qos: 1 })).rejects.toThrow(/subscribe/i);
  });

  it("disconnects a robot that floods it, and serves the others in the meantime", async () => {
    await broker.stop();
    broker = await startBroker({ port: 0, joinToken: "secret", log: silentLogger, clock: createVirtualClock() });
    const [server, flooder, other] = [await bridge(), await robot("r1"), await robot("r2")];
    await server.subscribeAsync(topics.allStatus, { qos: 1 });
    let flood = 0;
    const delivered = new Promise<void>((resolve) => {
      server.on("message", (topic) => {
        if (topic === topics.status("r2", uid)) resolve();
        else flood++;
      });
    });
    const gone = closed(flooder);
    for (let count = 0; count < publishLimit.burst * 2; count++) flooder.publish(topics.status("r1", uid), "{}", { qos: 0 });
    expect(await gone).toBe("closed");
    await other.publishAsync(topics.status("r2", uid), "{}", { qos: 1 });
    await delivered;
    expect(flood).toBeLessThan(publishLimit.burst * 2);
    // The limit counts across connections.
    const again = await robot("r1");
    const closedAgain = closed(again);
    for (let count = 0; count < publishLimit.burst; count++) again.publish(topics.status("r1", uid), "{}", { qos: 0 });
    expect(await closedAgain).toBe("closed");
  });

  it("delivers a robot's own messages to the bridge and the bridge's messages to the robot", async () => {
    const [server, r1] = [await bridge(), await robot("r1")];
    await server.subscribeAsync([topics.register, topics.allStatus, topics.allOnline], { qos: 1 });
    await r1.subscribeAsync([topics.dispatch("r1"), topics.response("r1"), topics.ownAcks("r1")], { qos: 1 });
    const received: string[] = [];
    const all = new Promise<void>((resolve) => {
      server.on("message", (topic) => {
        received.push(topic);
        if (received.length === 3) resolve();
      });
    });
    await r1.publishAsync(topics.register, JSON.stringify({ robotId: "r1", token: "secret" }), { qos: 1 });
    await r1.publishAsync(topics.online("r1"), '{"online":true}', { qos: 1, retain: true });
    await r1.publishAsync(topics.status("r1", uid), "{}", { qos: 1 });
    await all;
    expect(received).toEqual([topics.register, topics.online("r1"), topics.status("r1", uid)]);
    const got = new Promise<string>((resolve) => r1.once("message", (topic) => resolve(topic)));
    await server.publishAsync(topics.dispatch("r1"), "{}", { qos: 1 });
    expect(await got).toBe(topics.dispatch("r1"));
  });

  it.each([
    ["another robot's status (S4)", topics.status("r2", uid), "{}", false],
    ["a heartbeat for another robot (S4)", topics.heartbeat, '{"robotId":"r2"}', false],
    ["a dispatch, to itself too", topics.dispatch("r1"), "{}", false],
    ["a response", topics.response("r2"), "{}", false],
    ["a retained status", topics.status("r1", uid), "{}", true],
    ["a status whose uid is a path (S6)", "k8s4r/robots/r1/tasks/../status", "{}", false],
    ["another robot's presence", topics.online("r2"), "{}", true],
    ["anything else", "x", "{}", false],
  ])("disconnects a robot that publishes %s and does not deliver the message", async (_, topic, payload, retain) => {
    const [server, r1] = [await bridge(), await robot("r1")];
    await server.subscribeAsync("#", { qos: 1 });
    const received: string[] = [];
    server.on("message", (each) => received.push(each));
    const gone = closed(r1);
    r1.publish(topic, payload, { qos: 1, retain });
    expect(await gone).toBe("closed");
    // The test's own message arrives after anything that was let through.
    const own = new Promise<void>((resolve) => server.on("message", (each) => each === "end" && resolve()));
    await server.publishAsync("end", "", { qos: 1 });
    await own;
    expect(received).toEqual(["end"]);
  });

  it.each(["#", "k8s4r/#", "k8s4r/robots/+/tasks/dispatch", topics.dispatch("r2"), topics.register])(
    "rejects a robot's subscription to %s (S1)",
    async (filter) => {
      const r1 = await robot("r1");
      await expect(r1.subscribeAsync(filter, { qos: 1 })).rejects.toThrow(/subscribe/i);
    },
  );

  it("disconnects a client that announces a packet over the limit (S12)", async () => {
    const r1 = await robot("r1");
    const gone = closed(r1);
    // It would be allowed if it were smaller.
    r1.publish(topics.register, JSON.stringify({ robotId: "r1", token: "x".repeat(maxPacketBytes) }), { qos: 1 });
    expect(await gone).toBe("closed");
  });

  it("publishes the last will of a robot whose connection breaks", async () => {
    const server = await bridge();
    await server.subscribeAsync(topics.allOnline, { qos: 1 });
    const r1 = mqtt.connect(broker.url, {
      protocolVersion: 4,
      reconnectPeriod: 0,
      clientId: "k8s4r-agent-r1",
      username: "r1",
      password: "secret",
      will: { topic: topics.online("r1"), payload: Buffer.from('{"online":false}'), qos: 1, retain: true },
    });
    clients.push(r1);
    await new Promise<void>((resolve) => r1.once("connect", () => resolve()));
    const said = new Promise<string>((resolve) => server.once("message", (_, payload) => resolve(payload.toString())));
    r1.stream.destroy();
    expect(await said).toBe('{"online":false}');
  });

  it("names the port and the flag if the port is in use", async () => {
    const other = createServer();
    await new Promise<void>((resolve) => other.listen(0, "127.0.0.1", resolve));
    const address = other.address();
    const port = typeof address === "object" && address !== null ? address.port : 0;
    await expect(startBroker({ port, joinToken: "x", log: silentLogger })).rejects.toThrow(
      `MQTT broker: port ${port} on 127.0.0.1 is in use; choose another with --mqtt-port (0 picks a free one)`,
    );
    await new Promise((resolve) => other.close(resolve));
  });

  it("acknowledges in well under the 40 ms that Nagle's algorithm would cost", async () => {
    const r1 = await robot("r1");
    (r1.stream as { setNoDelay?: (noDelay: boolean) => void }).setNoDelay?.(true);
    const times: number[] = [];
    for (let index = 0; index < 21; index++) {
      const start = performance.now();
      await r1.publishAsync(topics.status("r1", uid), "x".repeat(2000), { qos: 1 });
      times.push(performance.now() - start);
    }
    // The minimum: with Nagle's algorithm, none is below 40 ms, whatever else the machine does.
    expect(Math.min(...times)).toBeLessThan(20);
  });
});
