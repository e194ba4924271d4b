import { execFileSync } from "node:child_process";
import { randomUUID } from "node:crypto";
import { mkdirSync, mkdtempSync, readFileSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { systemClock } from "@keelson/api-machinery/time";
import { silentLogger } from "@keelson/controller";
import { openContainerdImages, openImage } from "@keelson/execution";
import { createBusyboxImage, type LocalContainerd, startLocalContainerd } from "@keelson/execution/testing";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { type Broker, startBroker } from "../../broker/broker.ts";
import type { RunningAgent } from "../../commands/start-agent.ts";
import { type RecordingServer, startRecordingServer } from "../../testing/recording-server.ts";
import { startAgent } from "../agent.ts";
import { readRobotPolicy } from "../policy/robot-policy.ts";

const image = "docker.io/library/busybox:1";

describe.runIf(process.getuid?.() === 0)("an agent with containerd", () => {
  let base: string;
  let containerd: LocalContainerd;
  let broker: Broker;
  let server: RecordingServer;
  let agents: RunningAgent[] = [];

  beforeAll(async () => {
    base = realpathSync(mkdtempSync(join(tmpdir(), "kctr-")));
    containerd = await startLocalContainerd(join(base, "c"));
    await createBusyboxImage(join(base, "busybox.tar"), { WorkingDir: "/etc" });
    const images = await openContainerdImages({ socket: containerd.socket, random: Math.random, now: Date.now });
    const layout = await openImage(join(base, "busybox.tar"), { temporary: base });
    await images.add(image, layout);
    await layout.close();
  });

  afterAll(async () => {
    await containerd.stop();
    rmSync(base, { recursive: true, force: true });
  });

  beforeEach(async () => {
    broker = await startBroker({ port: 0, joinToken: "join-me", log: silentLogger });
    server = await startRecordingServer(broker, "robot-1", { acknowledges: true });
  });

  afterEach(async () => {
    for (const agent of agents.splice(0)) await agent.stop();
    await server.leave();
    await broker.stop();
  });

  let workDir: string;
  beforeEach(() => {
    workDir = mkdtempSync(join(base, "w-"));
  });

  async function agent(docker: object = {}, stopTasksOnExit = true): Promise<RunningAgent> {
    const started = await startAgent({
      ...{ robotId: "robot-1", token: "join-me", brokerUrl: broker.url, workDir, labels: {}, heartbeatIntervalMs: 30_000 },
      ...{ stopTasksOnExit, clock: systemClock, log: silentLogger },
      policy: readRobotPolicy({ docker: { socket: containerd.socket, pull: false, ...docker } }),
    });
    agents = [...agents, started];
    return started;
  }

  const container = (script: string, more: object = {}) => ({
    ...{ name: "t", driver: "docker", killTimeout: "1s" },
    config: { dockerConfig: { image: "busybox:1", command: ["sh", "-c", script], ...more } },
  });

  test("offers the driver, and runs a container with its image, volumes and the task's directory", async () => {
    const maps = join(base, "maps");
    mkdirSync(maps);
    writeFileSync(join(maps, "map"), "a map");
    await agent({ volumes: [maps] });
    await server.registered(1);
    expect(server.registrations[0]?.drivers).toContain("docker");
    const uid = randomUUID();
    const script =
      "pwd; cat motd; cat /maps/map; echo $FROM_IMAGE $K8S4R_ATTEMPT; echo x > /maps/map; echo own > /task/own; exit 3";
    await server.send("create", uid, 1, container(script, { volumes: [{ source: maps, target: "/maps", readOnly: true }] }));
    const { logsStdout, logsStderr, exitCode } = await server.status((status) => status.state === "failed");
    expect([logsStdout, exitCode]).toEqual(["/etc\nabove\na mapyes 1\n", 3]);
    expect(logsStderr).toMatch(/Read-only file system/);
    expect(readFileSync(join(workDir, uid, "own"), "utf8")).toBe("own\n");
  });

  test("runs an image that was imported by hand", async () => {
    const archive = join(base, "busybox.tar");
    const name = "docker.io/library/imported:1";
    execFileSync("ctr", ["-a", containerd.socket, "-n", "keelson", "images", "import", "--index-name", name, archive]);
    await agent();
    await server.registered(1);
    const config = { dockerConfig: { image: "imported:1", command: ["cat", "motd"] } };
    await server.send("create", randomUUID(), 1, { name: "t", driver: "docker", config });
    const { logsStdout, message } = await server.status((status) => status.state === "completed" || status.state === "failed");
    expect([logsStdout, message]).toEqual(["above\n", expect.anything()]);
  });

  test("removes an image that it has pulled and no task uses, and none that is in use", async () => {
    const images = await openContainerdImages({ socket: containerd.socket, random: Math.random, now: Date.now });
    const [spare, used] = ["docker.io/library/spare:1", "docker.io/library/used:1"];
    for (const name of [spare, used]) {
      const layout = await openImage(join(base, "busybox.tar"), { temporary: base });
      await images.add(name, layout);
      await layout.close();
    }
    const dir = join(workDir, ".agent", "containers");
    mkdirSync(dir, { recursive: true });
    const usedAt = Date.now();
    const pulled = { [spare]: { bytes: 1, usedAt }, [used]: { bytes: 1, usedAt } };
    writeFileSync(join(dir, "images.json"), JSON.stringify(pulled));
    const first = await agent({ cacheSize: "2" }, false);
    await server.registered(1);
    const uid = randomUUID();
    await server.send("create", uid, 1, container("echo up; sleep 600", { image: used }));
    await server.status((status) => status.taskUid === uid && status.state === "running");
    await first.stop();
    await agent({ cacheSize: "0" });
    await expect.poll(() => images.find(spare)).toBeUndefined();
    expect(await images.find(used)).toBeDefined();
  });

  test("stops a container that the next agent has adopted, and reports its timeout", async () => {
    const first = await agent({}, false);
    await server.registered(1);
    const [adopted, late] = [randomUUID(), randomUUID()];
    await server.send("create", adopted, 1, container("echo up; sleep 600"));
    await server.status((status) => status.taskUid === adopted && status.state === "running");
    await first.stop();
    await agent();
    await server.registered(2);
    await server.send("delete", adopted, 1);
    await server.status((status) => status.taskUid === adopted && status.state === "deleted");
    await server.send("create", late, 1, { ...container("sleep 600"), timeout: "1s" });
    const ended = await server.status((status) => status.taskUid === late && status.state === "failed");
    expect(ended).toMatchObject({ event: "Timeout" });
  });

  test("fails a task permanently if its image is missing and may not be pulled", async () => {
    await agent();
    await server.registered(1);
    const uid = randomUUID();
    await server.send("create", uid, 1, { ...container("true"), config: { dockerConfig: { image: "missing:2" } } });
    expect(await server.status((status) => status.state === "failed")).toMatchObject({
      ...{ permanent: true, message: expect.stringContaining("image docker.io/library/missing:2 not found on the robot") },
    });
  });

  test("does not offer the driver without containerd, and does not start if containers may be running", async () => {
    const gone = { socket: join(base, "gone.sock") };
    const first = await agent(gone);
    await server.registered(1);
    expect(server.registrations[0]?.drivers).not.toContain("docker");
    const uid = randomUUID();
    await server.send("create", uid, 1, container("true"));
    const rejected = await server.status((status) => status.state === "failed");
    expect(rejected.message).toMatch(/has no driver "docker" \(containerd does not respond on .*gone.sock/);
    await first.stop();
    mkdirSync(join(workDir, ".agent", "containers", "programs", "task"), { recursive: true });
    await expect(agent(gone)).rejects.toThrow("containerd does not respond");
  });
});
