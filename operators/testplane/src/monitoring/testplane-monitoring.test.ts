import type { Cache } from "@keelson/controller";
import { stateMetrics } from "@keelson/operator/monitoring";
import { expect, it } from "vitest";
import { testplaneMonitoring } from "./testplane-monitoring.ts";

const test = (kind: string, status?: object) => ({ kind, metadata: { namespace: "a" }, status });
const objects: Readonly<Record<string, readonly object[]>> = {
  IntegrationTest: [
    test("IntegrationTest", { phase: "Failed", verdict: "Timeout", completionTime: "2030-01-01T00:00:00Z" }),
    test("IntegrationTest"),
  ],
  LoadTest: [test("LoadTest", { phase: "Succeeded", verdict: "Passed" })],
};
const cache = { list: ({ kind }: { kind: string }) => objects[kind] } as unknown as Cache;

it("counts tests of both kinds by phase and verdict", () => {
  const samples = stateMetrics(testplaneMonitoring.metrics ?? {}, cache, 0).map(({ name, samples }) => [
    name,
    samples.map(({ labels, value }) => `${Object.values(labels).join(" ")} ${value}`),
  ]);
  expect(Object.fromEntries(samples)).toEqual({
    keelson_testplane_tests: ["a IntegrationTest Failed 1", "a IntegrationTest Pending 1", "a LoadTest Succeeded 1"],
    keelson_testplane_verdicts: ["a IntegrationTest Timeout 1", "a LoadTest Passed 1"],
    keelson_testplane_last_verdict_timestamp_seconds: [`a IntegrationTest Timeout ${Date.UTC(2030, 0, 1) / 1000}`],
  });
});
