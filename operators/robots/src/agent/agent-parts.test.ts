import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { createVirtualClock } from "@keelson/api-machinery/testing";
import { silentLogger } from "@keelson/controller";
import { folderHolder } from "@keelson/execution/files";
import { startAgent } from "./agent.ts";
import { openAgentParts } from "./agent-parts.ts";

let workDir: string;

beforeEach(() => {
  workDir = mkdtempSync(join(tmpdir(), "keelson-agent-"));
});

afterEach(() => {
  rmSync(workDir, { recursive: true, force: true });
});

const options = (token?: string) => ({
  ...{ robotId: "r1", brokerUrl: "mqtt://127.0.0.1:1", workDir, labels: {}, heartbeatIntervalMs: 1_000 },
  ...{ clock: createVirtualClock(0), log: silentLogger, stopTasksOnExit: false, token },
});

const holder = (): number | undefined => folderHolder(join(workDir, ".agent", "programs"));

test("an agent that cannot start does not keep its directory", async () => {
  await expect(openAgentParts(options())).rejects.toMatchObject({ code: "JoinFailed" });
  expect(holder()).toBeUndefined();
  const parts = await openAgentParts(options("join-me"));
  expect(holder()).toBe(process.pid);
  await parts.driver.close();
});

test("an agent that cannot read its tasks does not keep its directory", async () => {
  mkdirSync(join(workDir, ".agent"), { recursive: true });
  writeFileSync(join(workDir, ".agent", "tasks"), "");
  await expect(startAgent(options("join-me"))).rejects.toThrow("EEXIST");
  expect(holder()).toBeUndefined();
});
