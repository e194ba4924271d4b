import { createVirtualClock } from "@keelson/api-machinery/testing";
import type { Transport } from "@keelson/api-machinery/transport";
import { silentLogger } from "@keelson/controller";
import { expect, it } from "vitest";
import { traceRequests } from "./trace-requests.ts";

it("logs each request with its query, status and duration, and each failure", async () => {
  const clock = createVirtualClock();
  const lines: unknown[] = [];
  const log = { ...silentLogger, debug: (fields: object, message: string) => void lines.push([message, fields]) };
  const refused = new Error("refused");
  const transport: Transport = {
    async request() {
      await clock.advance(12);
      return { status: 404, headers: {}, body: {} };
    },
    watch: () => Promise.reject(refused),
    close: () => Promise.resolve(),
  };
  const traced = traceRequests(transport, clock, log);
  await traced.request({ method: "GET", path: "/api/v1/pods", query: { labelSelector: "a=b", limit: undefined } });
  await expect(traced.watch({ method: "GET", path: "/api/v1/pods" })).rejects.toBe(refused);
  expect(traced.stream).toBeUndefined();
  expect(lines).toEqual([
    ["request", { method: "GET", path: "/api/v1/pods?labelSelector=a%3Db", status: 404, ms: 12 }],
    ["request failed", { method: "GET", path: "/api/v1/pods", err: refused, ms: 0 }],
  ]);
});
