import { systemClock } from "@keelson/api-machinery/time";
import { engineContract } from "@keelson/middleware-agent/testing";
import { afterAll, beforeAll, describe, it } from "vitest";
import { parameters, password, PostgresPods } from "./testing/postgres-pod.ts";

let servers: PostgresPods;
beforeAll(async () => {
  servers = await PostgresPods.install();
});
afterAll(() => servers.uninstall());

describe("the engine of PostgreSQL", () => {
  const cases = engineContract({
    startPods: (count) => servers.start(count),
    stopPods: (pods) => servers.stop(pods),
    parameters,
    hot: { name: "work_mem", value: "8MB" },
    cold: { name: "max_locks_per_transaction", value: "128" },
    invalid: { name: "log_min_duration_statement", value: "sometimes" },
    rules: { valid: ["role:pg_read_all_data", "database:reports", "connections:5"], invalid: ["superuser"] },
    ...{ password, defaultLogin: "postgres" },
    clock: systemClock,
  });
  it.each(cases)("$title", { timeout: 400_000 }, ({ run }) => run());
});
