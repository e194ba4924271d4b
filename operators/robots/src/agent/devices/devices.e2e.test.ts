import { randomUUID } from "node:crypto";
import { chmodSync, existsSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { systemClock } from "@keelson/api-machinery/time";
import { silentLogger } from "@keelson/controller";
import { findBubblewrap } from "@keelson/execution";
import { canCreateDevices, createZeroDevice } from "@keelson/execution/testing";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { startBroker } from "../../broker/broker.ts";
import type { RunningAgent } from "../../commands/start-agent.ts";
import { type RecordingServer, startRecordingServer } from "../../testing/recording-server.ts";
import { startAgent } from "../agent.ts";
import { readRobotPolicy } from "../policy/robot-policy.ts";

describe.runIf(canCreateDevices() && findBubblewrap() !== undefined)("an agent with devices", () => {
  let [base, dev]: [string, string] = ["", ""];
  let server: RecordingServer;
  let start: (policy: object, stopTasksOnExit?: boolean) => Promise<RunningAgent>;
  const cleanups: (() => Promise<unknown>)[] = [];

  beforeEach(async () => {
    base = realpathSync(mkdtempSync(join(tmpdir(), "keelson-agent-")));
    dev = mkdtempSync("/dev/keelson-");
    chmodSync(dev, 0o755);
    for (const name of ["arm0", "alias", "disk"]) createZeroDevice(join(dev, name));
    createZeroDevice(join(dev, "arm1"), "full");
    const broker = await startBroker({ port: 0, joinToken: "join-me", log: silentLogger });
    cleanups.push(() => broker.stop());
    server = await startRecordingServer(broker, "robot-1", { acknowledges: true });
    cleanups.push(() => server.leave());
    start = async (policy, stopTasksOnExit = true) => {
      const agent = await startAgent({
        ...{ robotId: "robot-1", token: "join-me", brokerUrl: broker.url, workDir: join(base, "tasks"), labels: {} },
        ...{ heartbeatIntervalMs: 30_000, stopTasksOnExit, clock: systemClock, log: silentLogger },
        policy: readRobotPolicy(policy),
      });
      cleanups.push(() => agent.stop());
      return agent;
    };
  });

  afterEach(async () => {
    for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
    for (const path of [base, dev]) rmSync(path, { recursive: true, force: true });
  });

  const policy = () => ({ isolation: {}, devices: [{ name: "acme/arm", paths: [join(dev, "arm*"), join(dev, "alias")] }] });
  const task = (script: string, id: string) => ({
    ...{ name: "t", driver: "exec", config: { execConfig: { command: "/bin/sh", args: ["-c", script] } } },
    ...{ resources: { devices: [{ name: "arm", count: 1 }] }, targetDevices: [{ name: "arm", ids: [id] }] },
  });
  const look = (): string => `echo $K8S4R_DEVICE_ARM; ls ${dev}; head -c 3 $K8S4R_DEVICE_ARM | wc -c`;

  test("reports those of its policy, and an isolated program sees only the one that it was assigned", async () => {
    await start(policy());
    await server.registered(1);
    const device = (name: string) => ({ id: join(dev, name), name: "acme/arm" });
    expect(server.registrations[0]?.deviceInfo?.devices).toEqual([device("arm0"), device("arm1")]);
    const uid = randomUUID();
    await server.send("create", uid, 1, task(look(), join(dev, "arm1")));
    const { logsStdout, state } = await server.status((status) => status.state === "completed" || status.state === "failed");
    expect([state, logsStdout]).toEqual(["completed", `${join(dev, "arm1")}\narm1\n3\n`]);
  });

  test("starts no program with a device that another one has, or that the policy does not offer", async () => {
    await start(policy());
    await server.registered(1);
    const [holder, second, third] = [randomUUID(), randomUUID(), randomUUID()];
    const gate = join(base, "tasks", holder, "gate");
    await server.send("create", holder, 1, task(`while ! [ -e gate ]; do sleep 0.02; done`, join(dev, "arm0")));
    await server.status((status) => status.taskUid === holder && status.state === "running");
    await server.send("create", second, 1, task(look(), join(dev, "alias")));
    const rejected = await server.status((status) => status.taskUid === second && status.state === "failed");
    expect(rejected.message).toContain(`device ${join(dev, "alias")} is used by the program ${holder}-1`);
    await server.send("create", third, 1, task(look(), join(dev, "disk")));
    const forbidden = await server.status((status) => status.taskUid === third && status.state === "failed");
    expect(forbidden.message).toContain(`the robot's policy offers no device "arm" at ${join(dev, "disk")}`);
    expect(existsSync(gate)).toBe(false);
    writeFileSync(gate, "");
    await server.status((status) => status.taskUid === holder && status.state === "completed");
    await server.send("create", second, 2, task(look(), join(dev, "arm0")));
    await server.status((status) => status.taskUid === second && status.state === "completed");
  });

  test("keeps a device for a program of the last agent, and starts none without its device", async () => {
    const first = await start(policy(), false);
    await server.registered(1);
    const [holder, second, third] = [randomUUID(), randomUUID(), randomUUID()];
    await server.send("create", holder, 1, task("sleep 600", join(dev, "arm0")));
    await server.status((status) => status.taskUid === holder && status.state === "running");
    await first.stop();
    await start(policy());
    await server.registered(2);
    await server.send("create", second, 1, task(look(), join(dev, "arm0")));
    const rejected = await server.status((status) => status.taskUid === second && status.state === "failed");
    expect(rejected.message).toContain("is used by the program");
    rmSync(join(dev, "arm1"));
    await server.send("create", third, 1, task(look(), join(dev, "arm1")));
    const missing = await server.status((status) => status.taskUid === third && status.state === "failed");
    expect(missing.message).toContain(`device ${join(dev, "arm1")} not found on the robot`);
  });
});
