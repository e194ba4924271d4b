import { isNotFound } from "@keelson/api-machinery";
import { Lease, Node } from "@keelson/api-machinery/kinds";
import { createVirtualClock } from "@keelson/api-machinery/testing";
import { startTestEnvironment, type TestEnvironment } from "@keelson/apiserver/testing";
import { type Client, createClient } from "@keelson/client";
import { silentLogger } from "@keelson/controller";
import { afterEach, beforeEach, expect, test } from "vitest";
import { type NodeRegistration, registerNode } from "./node-registration.ts";

const leaseKey = { namespace: "kube-node-lease", name: "here" };
const clock = createVirtualClock();
let environment: TestEnvironment;
let client: Client;
let registration: NodeRegistration | undefined;
let hasDiskPressure = false;

beforeEach(async () => {
  environment = await startTestEnvironment();
  client = createClient({ transport: environment.transport(), fieldManager: "kubelet" });
});
afterEach(async () => {
  await registration?.stop();
  registration = undefined;
  await environment.stop();
});

const register = async (enforcesPolicies = false): Promise<void> => {
  registration = await registerNode({
    client,
    clock,
    log: silentLogger,
    nodeName: "here",
    hostIP: "127.0.0.1",
    machine: { cpu: "4", memory: "1024Ki", pods: "250", "ephemeral-storage": "1000Ki" },
    labels: {},
    taints: [],
    serverPort: undefined,
    enforcesPolicies,
    thresholds: { "nodefs.available": { share: 0.1, amount: 200 * 1024 } },
    hasDiskPressure: () => hasDiskPressure,
  });
};
const renewedAt = async (): Promise<number> => Date.parse((await client.get(Lease, leaseKey)).spec?.renewTime ?? "");
const ready = async (): Promise<unknown> =>
  (await client.get(Node, { name: "here" })).status?.conditions?.find(({ type }) => type === "Ready")?.status;

test("renews the node's Lease every 10 s and recreates a deleted one", async () => {
  await register();
  const first = await renewedAt();
  expect(first).toBe(clock.now());
  expect((await client.get(Lease, leaseKey)).spec).toMatchObject({ holderIdentity: "here", leaseDurationSeconds: 40 });
  await clock.advance(10_000);
  await expect.poll(renewedAt).toBe(first + 10_000);
  await client.delete(Lease, leaseKey);
  await expect(client.get(Lease, leaseKey)).rejects.toSatisfy(isNotFound);
  await clock.advance(10_000);
  await expect.poll(() => renewedAt().catch(() => 0)).toBe(first + 20_000);
});

test("reports not ready when it stops, and stops renewing the Lease", async () => {
  await register();
  expect(await ready()).toBe("True");
  await registration?.stop();
  registration = undefined;
  expect(await ready()).toBe("False");
  const last = await renewedAt();
  await clock.advance(60_000);
  expect(await renewedAt()).toBe(last);
  await register();
  expect(await ready()).toBe("True");
});

test("Pods cannot request the space that the threshold keeps free", async () => {
  await register();
  expect((await client.get(Node, { name: "here" })).status?.allocatable?.["ephemeral-storage"]).toBe(String(900 * 1024));
});

test("reports disk pressure immediately, or with the next renewal if that fails", async () => {
  const condition = async (): Promise<unknown> =>
    (await client.get(Node, { name: "here" })).status?.conditions?.find(({ type }) => type === "DiskPressure");
  await register();
  expect(await condition()).toMatchObject({ status: "False", reason: "KubeletHasNoDiskPressure" });
  hasDiskPressure = true;
  await registration?.report();
  expect(await condition()).toMatchObject({ status: "True", reason: "KubeletHasDiskPressure" });
  hasDiskPressure = false;
  environment.faults.failNext({ reason: "ServiceUnavailable", when: ({ method }) => method === "PATCH" });
  await registration?.report();
  expect(await condition()).toMatchObject({ status: "True" });
  await clock.advance(10_000);
  await expect.poll(condition).toMatchObject({ status: "False" });
});

test("reports whether NetworkPolicies are enforced", async () => {
  const enforced = async (): Promise<unknown> =>
    (await client.get(Node, { name: "here" })).status?.conditions?.find(({ type }) => type === "NetworkPolicyEnforced");
  await register();
  expect(await enforced()).toMatchObject({ status: "False", reason: "SharedNetwork" });
  await registration?.stop();
  await register(true);
  expect(await enforced()).toMatchObject({ status: "True" });
});
