import { execFileSync } from "node:child_process";
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { startTestEnvironment, type TestEnvironment } from "@keelson/apiserver/testing";
import { type Client, createClient } from "@keelson/client";
import { freePort } from "@keelson/execution/testing";
import { type RunningOperator, startOperator } from "@keelson/operator";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { Robot } from "./api/robot.ts";
import { Task } from "./api/task.ts";
import { Secret } from "./api/secret.ts";
import { robots } from "./operator.ts";
import { type Mosquitto, startMosquitto } from "./testing/mosquitto.ts";
import { connectScriptedAgent, type ScriptedAgent } from "./testing/scripted-agent.ts";
import { watched } from "@keelson/client/testing";

const namespace = "default";
let dir: string;
let port: number;
let broker: Mosquitto;
let environment: TestEnvironment;
let client: Client;
let operator: RunningOperator;

beforeEach(async () => {
  dir = mkdtempSync(join(tmpdir(), "robots-mosquitto-"));
  // Mosquitto drops root's privileges and still has to read its files.
  chmodSync(dir, 0o755);
  port = await freePort();
  writeFileSync(join(dir, "password"), "bridge-password\n");
  writeFileSync(join(dir, "users"), "");
  for (const [user, password] of [
    ["server", "bridge-password"],
    ["robot-001", "one"],
    ["robot-002", "two"],
  ] as const) {
    execFileSync("mosquitto_passwd", ["-b", join(dir, "users"), user, password]);
  }
  writeFileSync(
    join(dir, "acl"),
    [
      "user server",
      "topic readwrite k8s4r/#",
      "pattern write k8s4r/register",
      "pattern write k8s4r/heartbeat",
      "pattern write k8s4r/robots/%u/online",
      "pattern write k8s4r/robots/%u/tasks/+/status",
      "pattern write k8s4r/robots/%u/lease",
      "pattern read k8s4r/robots/%u/#",
    ].join("\n"),
  );
  for (const file of ["users", "acl"]) chmodSync(join(dir, file), 0o644);
  writeFileSync(
    join(dir, "mosquitto.conf"),
    [
      `listener ${port} 127.0.0.1`,
      "allow_anonymous false",
      `password_file ${join(dir, "users")}`,
      `acl_file ${join(dir, "acl")}`,
      "persistence false",
      "set_tcp_nodelay true",
      "log_dest stderr",
    ].join("\n"),
  );
  broker = await startMosquitto(join(dir, "mosquitto.conf"));
  environment = await startTestEnvironment({ crds: robots.resources.map((resource) => resource.crd) });
  client = createClient({ transport: environment.transport(), fieldManager: "test" });
  operator = await startOperator({
    operator: robots,
    client,
    dataDir: join(dir, "data"),
    flags: { "mqtt-url": `mqtt://127.0.0.1:${port}`, "mqtt-username": "server", "mqtt-password-file": join(dir, "password") },
  });
});

afterEach(async () => {
  await operator.stop();
  await environment.stop();
  await broker.stop();
  rmSync(dir, { recursive: true, force: true });
});

async function robot(robotId: string, password: string): Promise<ScriptedAgent> {
  const secret = await client.get(Secret, { namespace, name: "robot-join-token" });
  const token = Buffer.from(secret.data?.token ?? "", "base64").toString();
  const agent = await connectScriptedAgent({ url: `mqtt://127.0.0.1:${port}`, robotId, token, password });
  await agent.register();
  await watched(client, Robot, robotId, (each) => each?.status?.phase === "Online");
  return agent;
}

const task = (name: string, targetRobot: string) => ({
  metadata: { name, namespace },
  spec: { name, targetRobot, driver: "raw_exec" as const, config: { execConfig: { command: "/bin/true" } } },
});

describe("the bridge with Mosquitto", () => {
  it("runs a task from its creation to completed", async () => {
    const agent = await robot("robot-001", "one");
    await client.create(Task, task("first", "robot-001"));
    const { task: dispatched } = await agent.dispatched();
    await agent.report({ uid: dispatched.metadata.uid ?? "", attempt: 1, seq: 1 }, "completed", { exitCode: 0 });
    const done = await watched(client, Task, "first", (each) => each?.status?.state === "completed");
    expect(done?.status?.exitCode).toBe(0);
    await agent.leave();
  });

  it("takes a robot offline by its last will if its connection breaks", async () => {
    const agent = await robot("robot-001", "one");
    await agent.leave(false);
    const lost = await watched(client, Robot, "robot-001", (each) => each?.status?.phase === "Offline");
    expect(lost?.status?.message).toBe("the robot's agent is not connected");
  });

  it("ignores one robot's reports about another's task (S4)", async () => {
    const [one, two] = [await robot("robot-001", "one"), await robot("robot-002", "two")];
    await client.create(Task, task("mine", "robot-001"));
    const { task: dispatched } = await one.dispatched();
    const of = { uid: dispatched.metadata.uid ?? "", attempt: 1 };
    await two.client.publishAsync(
      `k8s4r/robots/robot-001/tasks/${of.uid}/status`,
      JSON.stringify({
        taskUid: of.uid,
        robotName: "robot-001",
        state: "failed",
        message: "",
        event: "Failed",
        updatedAt: "",
        attempt: 1,
        seq: 1,
      }),
      { qos: 1 },
    );
    await two.report({ ...of, seq: 2 }, "failed");
    await two.dispatched((message) => message.action === "delete");
    await one.report({ ...of, seq: 1 }, "completed");
    const done = await watched(
      client,
      Task,
      "mine",
      (each) => each?.status?.state === "completed" || each?.status?.state === "failed",
    );
    expect(done?.status?.state).toBe("completed");
    await one.leave();
    await two.leave();
  });

  it("dispatches again after the broker was killed and lost everything (B6, F1)", async () => {
    const agent = await robot("robot-001", "one");
    await client.create(Task, task("twice", "robot-001"));
    await agent.dispatched();
    await broker.stop();
    broker = await startMosquitto(join(dir, "mosquitto.conf"));
    const again = await connectScriptedAgent({
      url: `mqtt://127.0.0.1:${port}`,
      robotId: "robot-001",
      token: (await client.get(Secret, { namespace, name: "robot-join-token" })).data?.token ?? "",
      password: "one",
    });
    // The bridge reconnects and dispatches again without a registration.
    const { task: dispatched } = await again.dispatched();
    expect(dispatched.status?.attempt).toBe(1);
    await again.report({ uid: dispatched.metadata.uid ?? "", attempt: 1, seq: 1 }, "completed", { exitCode: 0 });
    await watched(client, Task, "twice", (each) => each?.status?.state === "completed");
    await again.leave();
  });

  it("names the flags if the broker rejects the credentials", async () => {
    writeFileSync(join(dir, "password"), "wrong");
    const start = startOperator({
      operator: { ...robots, controllers: () => [] },
      client,
      dataDir: join(dir, "other"),
      flags: { "mqtt-url": `mqtt://127.0.0.1:${port}`, "mqtt-username": "server", "mqtt-password-file": join(dir, "password") },
    });
    await expect(start).rejects.toThrow(/rejected the credentials .*--mqtt-username and --mqtt-password-file/);
  });
});
