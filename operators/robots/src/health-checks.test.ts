import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { systemClock } from "@keelson/api-machinery/time";
import { watched } from "@keelson/client/testing";
import { silentLogger } from "@keelson/controller";
import { expect, it } from "vitest";
import { startAgent } from "./agent/agent.ts";
import { Job } from "./api/job.ts";
import { Task } from "./api/task.ts";
import { namespace, RobotsEnvironment } from "./testing/robots-environment.ts";

/** Fails its check when it first runs, and passes it after a restart. */
const server = `
  const { existsSync, writeFileSync } = require("node:fs");
  const isFirst = !existsSync("ran");
  writeFileSync("ran", "");
  require("node:http")
    .createServer((request, response) => response.writeHead(isFirst || request.url !== "/health" ? 503 : 200).end())
    .listen(Number(process.env.K8S4R_PORT_WEB), "127.0.0.1");
`;

it("restarts a program that fails its checks, and counts it as healthy once it passes them", async () => {
  const dir = mkdtempSync(join(tmpdir(), "robots-checks-"));
  const robots = await RobotsEnvironment.start();
  const agent = await startAgent({
    ...{ brokerUrl: robots.url, robotId: "one", token: robots.token, heartbeatIntervalMs: 30_000, workDir: dir, labels: {} },
    ...{ clock: systemClock, log: silentLogger, stopTasksOnExit: true },
  });
  try {
    await robots.online("one");
    const check = { type: "http" as const, path: "/health", interval: "1s", checkRestart: { limit: 1, grace: "0s" } };
    await robots.client.create(Job, {
      metadata: { name: "web", namespace },
      spec: {
        name: "web",
        type: "service",
        update: { minHealthyTime: "0s" },
        taskGroups: [
          {
            name: "main",
            count: 1,
            restartPolicy: { attempts: 1, interval: "1h", delay: "0s", mode: "fail" },
            tasks: [
              {
                name: "server",
                driver: "raw_exec",
                config: { execConfig: { command: process.execPath, args: ["-e", server] } },
                resources: { networks: [{ dynamicPorts: [{ label: "web" }] }] },
                services: [{ name: "web", portLabel: "web", checks: [check] }],
              },
            ],
          },
        ],
      },
    });
    const { client } = robots;
    const healthy = await watched(client, Task, "web-main-server-0", (task) => task?.status?.health === "passing");
    expect(healthy?.status).toMatchObject({ state: "running", reason: "Healthy", restartCount: 1 });
    const events = healthy?.status?.events?.map(({ type, displayMessage }) => `${type}: ${displayMessage}`) ?? [];
    expect(events.join("\n")).toMatch(/Restarting: .*check web failed once: status 503/);
    await watched(
      client,
      Job,
      "web",
      (job) => job?.status?.conditions?.some(({ type, status }) => type === "Available" && status === "True") === true,
    );
  } finally {
    await agent.stop();
    await robots[Symbol.asyncDispose]();
    rmSync(dir, { recursive: true, force: true });
  }
});
