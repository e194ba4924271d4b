import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createVirtualClock } from "@keelson/api-machinery/testing";
import { silentLogger } from "@keelson/controller";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { PostgresConnection, PostgresError } from "./server/postgres-client.ts";
import { PostgresEngine } from "./postgres-engine.ts";
import { PostgresServer } from "./server/postgres-server.ts";

const host = "10.0.0.1";
let dataDir: string;
beforeEach(async () => void (dataDir = await mkdtemp(join(tmpdir(), "engine-"))));
afterEach(async () => {
  vi.restoreAllMocks();
  await rm(dataDir, { recursive: true, force: true });
});

it("does not take over if a role of the same epoch is assigned while it waits for permission", async () => {
  vi.spyOn(PostgresConnection, "open").mockRejectedValue(new PostgresError("Unreachable", "connect ECONNREFUSED"));
  const isRunning = vi.spyOn(PostgresServer.prototype, "isRunning", "get").mockReturnValue(true);
  const initialize = vi.spyOn(PostgresServer.prototype, "initialize").mockRejectedValue(new Error("initialized"));
  const engine = new PostgresEngine({
    ...{ program: process.execPath, host, port: 1, password: "", podName: "p-0", flags: { "run-as": "999:999" } },
    ...{ configFile: "/none", dataDir, clock: createVirtualClock(), log: silentLogger },
  });
  await engine.assign({ role: "replica", primaryHost: "10.0.0.2", epoch: 2 });
  const takeOver = engine.failover({
    ...{ target: host, others: [], epoch: 2, timeoutMs: 5_000, isPrimaryDown: true },
    beforePromotion: async () => {
      await engine.assign({ role: "replica", primaryHost: "10.0.0.3", epoch: 2 });
      return { ok: true, epoch: 2 };
    },
  });
  await expect(takeOver).rejects.toThrow("another role was assigned in the meantime");
  expect(initialize).not.toHaveBeenCalled();
  isRunning.mockReturnValue(false);
  expect(await engine.role()).toMatchObject({ role: "replica", info: { primaryHost: "10.0.0.3", epoch: "2" } });
  vi.spyOn(PostgresServer.prototype, "end").mockResolvedValue({ ok: true });
  await engine.stop({ timeoutMs: 0, force: true });
});
