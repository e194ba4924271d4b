import { mkdtempSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { systemClock } from "@keelson/api-machinery/time";
import type { Client } from "@keelson/client";
import { watched } from "@keelson/client/testing";
import { silentLogger } from "@keelson/controller";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { startAgent } from "./agent/agent.ts";
import { Robot } from "./api/robot.ts";
import { Task } from "./api/task.ts";
import { approveCommand, revokeCommand } from "./commands/approve.ts";
import { issueToken } from "./commands/token.ts";
import type { RunningAgent } from "./commands/start-agent.ts";
import { readTokens, type StoredToken } from "./identity/token-store.ts";
import { namespace, RobotsEnvironment } from "./testing/robots-environment.ts";

let robots: RobotsEnvironment;
let client: Client;
let dir: string;
const agents: RunningAgent[] = [];

beforeEach(async () => {
  dir = mkdtempSync(join(tmpdir(), "robots-identity-"));
  robots = await RobotsEnvironment.start();
  client = robots.client;
});

afterEach(async () => {
  for (const agent of agents.splice(0)) await agent.stop();
  await robots[Symbol.asyncDispose]();
  rmSync(dir, { recursive: true, force: true });
});

async function token(binding: Pick<StoredToken, "robot" | "labels" | "requiresApproval">, ttlMs = 60_000): Promise<string> {
  const store = { client, namespace, fieldManager: "test" };
  return (await issueToken(store, { ...binding, ttlMs }, Date.now())).text;
}

async function start(robotId: string, options: { readonly token?: string; readonly workDir?: string } = {}): Promise<RunningAgent> {
  const agent = await startAgent({
    brokerUrl: robots.url,
    robotId,
    token: options.token,
    heartbeatIntervalMs: 30_000,
    workDir: options.workDir ?? join(dir, robotId),
    labels: {},
    clock: systemClock,
    log: silentLogger,
    stopTasksOnExit: true,
  });
  agents.push(agent);
  return agent;
}

const phase = (name: string, wanted: string) => watched(client, Robot, name, (robot) => robot?.status?.phase === wanted);

const task = (name: string, targetRobot: string) => ({
  metadata: { name, namespace },
  spec: { name, targetRobot, driver: "raw_exec" as const, config: { execConfig: { command: "/bin/true" } } },
});

describe("a robot with a one-time token", () => {
  it("joins with a key of its own, runs tasks, and needs no token afterwards", async () => {
    const agent = await start("one", { token: await token({ robot: "one" }) });
    const joined = await phase("one", "Online");
    expect(joined?.status?.identity?.keySha256).toMatch(/^[0-9a-f]{64}$/);
    expect(joined?.status?.conditions?.find(({ type }) => type === "Approved")?.reason).toBe("Joined");
    expect(statSync(join(dir, "one", ".agent", "identity.json")).mode & 0o777).toBe(0o600);
    await client.create(Task, task("first", "one"));
    await watched(client, Task, "first", (each) => each?.status?.state === "completed");
    await agent.stop();
    await phase("one", "Offline");
    await start("one");
    await phase("one", "Online");
  });
});
