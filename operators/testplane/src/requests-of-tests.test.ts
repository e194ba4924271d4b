import { ConfigMap, EventsEvent } from "@keelson/api-machinery/kinds";
import { type Clock, systemClock } from "@keelson/api-machinery/time";
import type { Transport } from "@keelson/api-machinery/transport";
import { expect, it } from "vitest";
import { IntegrationTest } from "./api/integration-test.ts";
import { startTestplaneEnvironment } from "./testing/testplane-environment.ts";

const namespace = "default";
/** No timer fires: the test advances by events only. */
const clock: Clock = {
  now: () => systemClock.now(),
  monotonic: () => systemClock.monotonic(),
  setTimer: (_, run) => systemClock.setTimer(2 ** 30, run),
};

const step = (name: string) => ({
  name,
  resource: { manifest: { apiVersion: "v1", kind: "ConfigMap", metadata: { name } } },
  expectations: { allOf: [{ cel: "has(object.data) && object.data.go == 'yes'" }] },
});

it("writes the status of a test twice per step, and three events for two steps", async () => {
  const writes: string[] = [];
  const counting = (transport: Transport): Transport => ({
    ...transport,
    request: (request) => {
      if (request.method !== "GET") writes.push(request.path.replace(/.*\/namespaces\/default\//, ""));
      return transport.request(request);
    },
    watch: (request) => transport.watch(request),
    close: () => transport.close(),
  });
  await using environment = await startTestplaneEnvironment(counting, [], clock);
  const { client, until } = environment;
  const spec = { steps: [step("first"), step("second")] };
  await client.create(IntegrationTest, { metadata: { name: "test", namespace }, spec });
  for (const [index, name] of ["first", "second"].entries()) {
    await until(IntegrationTest, "test", (test) => test?.status?.steps?.[index]?.expectationResults !== undefined);
    await client.patch(ConfigMap, { namespace, name }, { type: "merge", body: { data: { go: "yes" } } });
  }
  await until(IntegrationTest, "test", (test) => test?.status?.phase === "Succeeded");
  const reasons: string[] = [];
  for await (const { object } of await client.watch(EventsEvent, { namespace })) {
    if ("reason" in object) reasons.push(String(object.reason));
    if (reasons.includes("IntegrationTestSucceeded")) break;
  }
  expect(reasons.sort()).toEqual(["IntegrationTestStarted", "IntegrationTestSucceeded", "StepSucceeded"]);
  expect(writes.filter((path) => path === "integrationtests/test/status")).toHaveLength(5);
  expect(writes.filter((path) => path.startsWith("configmaps/"))).toEqual(["configmaps/first", "configmaps/second"]);
});
