import { createVirtualClock } from "@keelson/api-machinery/testing";
import { afterEach, expect, it, vi } from "vitest";
import { PostgresConnection, PostgresError } from "../server/postgres-client.ts";
import { metricQueries } from "./metric-queries.ts";
import { MetricsReader } from "./read-metrics.ts";

const address = { host: "/run", port: 5_432, password: "" };
const settings = JSON.stringify([{ name: "fsync", setting: "on", unit: null, vartype: "bool", short_desc: "Syncs." }]);

afterEach(() => {
  vi.restoreAllMocks();
});

/** A server whose statements take `statementMs` of a virtual clock. */
function slowServer(statementMs: number) {
  const clock = createVirtualClock();
  const timeouts: (number | undefined)[] = [];
  const open = vi.spyOn(PostgresConnection, "open").mockImplementation(() => {
    const connection = {
      async run(text: string, _: unknown, timeoutMs: number | undefined): Promise<readonly object[]> {
        timeouts.push(timeoutMs);
        await clock.advance(Math.min(statementMs, timeoutMs ?? Infinity));
        if (statementMs > (timeoutMs ?? Infinity)) throw new PostgresError("Unreachable", "Query read timeout");
        return [{ rows: text.includes("pg_settings") ? settings : "[]" }];
      },
      [Symbol.asyncDispose]: () => Promise.resolve(),
    };
    return Promise.resolve(connection as unknown as PostgresConnection);
  });
  return { clock, timeouts, open };
}

it("reads all metrics within one deadline, which the server enforces too", async () => {
  const { clock, timeouts, open } = slowServer(900);
  const before = clock.monotonic();
  const found = await new MetricsReader(address, clock).read();
  expect(found.map(({ name }) => name)).toEqual(["pg_up", "pg_settings_fsync"]);
  expect(found[0]?.samples).toEqual([{ labels: {}, value: 1 }]);
  expect(timeouts).toEqual([2_000, 1_100, 200]);
  expect(clock.monotonic() - before).toBe(2_000);
  expect(open).toHaveBeenCalledWith(expect.objectContaining({ statementTimeoutMs: 2_000 }));
});

it("reads the metrics once for scrapes that arrive together", async () => {
  const { clock, timeouts, open } = slowServer(1);
  const reader = new MetricsReader(address, clock);
  const [first, second] = await Promise.all([reader.read(), reader.read()]);
  expect(first).toBe(second);
  expect(open).toHaveBeenCalledTimes(1);
  expect(timeouts).toHaveLength(metricQueries.length + 1);
  await reader.read();
  expect(open).toHaveBeenCalledTimes(2);
});
