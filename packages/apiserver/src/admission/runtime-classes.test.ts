import { Pod, RuntimeClass, ServiceAccount } from "@keelson/api-machinery/kinds";
import { createClient } from "@keelson/client";
import { afterAll, beforeAll, expect, it } from "vitest";
import { startTestEnvironment, type TestEnvironment } from "../testing/test-environment.ts";

let environment: TestEnvironment;
beforeAll(async () => {
  environment = await startTestEnvironment({ requiresServiceAccounts: true });
  await client().create(ServiceAccount, { metadata: { namespace: "default", name: "default" } });
  await client().create(RuntimeClass, {
    metadata: { name: "heavy" },
    handler: "vm",
    overhead: { podFixed: { cpu: "10m" } },
    scheduling: { nodeSelector: { foo: "bar" }, tolerations: [{ key: "foo", operator: "Exists" }] },
  });
});
afterAll(() => environment.stop());

const client = () => createClient({ transport: environment.transport(), fieldManager: "tester" });
const create = (name: string, spec: object) =>
  client().create(Pod, {
    metadata: { namespace: "default", name },
    spec: { containers: [{ name: "a", image: "a" }], ...spec },
  });

it("rejects a Pod whose RuntimeClass does not exist", async () => {
  await expect(create("a", { runtimeClassName: "missing" })).rejects.toMatchObject({
    status: { code: 403, message: 'pods "a" is forbidden: pod rejected: RuntimeClass "missing" not found' },
  });
});

it("gives a Pod the overhead and the scheduling of its RuntimeClass", async () => {
  const { spec } = await create("b", { runtimeClassName: "heavy", nodeSelector: { own: "x" } });
  expect(spec).toMatchObject({
    overhead: { cpu: "10m" },
    nodeSelector: { own: "x", foo: "bar" },
    tolerations: expect.arrayContaining([{ key: "foo", operator: "Exists" }]),
  });
});

it("rejects an overhead or a node selector that contradicts the RuntimeClass", async () => {
  await expect(create("c", { runtimeClassName: "heavy", overhead: { cpu: "1" } })).rejects.toThrow(
    "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead",
  );
  await expect(create("c", { overhead: { cpu: "1" } })).rejects.toThrow(
    "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead",
  );
  await expect(create("c", { runtimeClassName: "heavy", nodeSelector: { foo: "x" } })).rejects.toThrow(
    "conflict: runtimeClass.scheduling.nodeSelector[foo] = bar; pod.spec.nodeSelector[foo] = x",
  );
});
