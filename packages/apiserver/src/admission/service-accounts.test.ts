import { Namespace, Pod, ServiceAccount } from "@keelson/api-machinery/kinds";
import { createVirtualClock } from "@keelson/api-machinery/testing";
import { createClient } from "@keelson/client";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { startTestEnvironment, type TestEnvironment } from "../testing/test-environment.ts";

const clock = createVirtualClock();
let environment: TestEnvironment;
beforeAll(async () => {
  environment = await startTestEnvironment({ clock, requiresServiceAccounts: true });
});
afterAll(() => environment.stop());

const client = () => createClient({ transport: environment.transport(), fieldManager: "tester" });
const create = (namespace: string, name: string, spec: object = {}) =>
  client().create(Pod, { metadata: { namespace, name }, spec: { containers: [{ name: "a", image: "a" }], ...spec } });
const awaitPendingTimer = async () => {
  await expect.poll(() => clock.pendingTimers).toBe(1);
};

describe("the service account of a Pod", () => {
  it("must exist", async () => {
    await expect(create("default", "a", { serviceAccountName: "ci" })).rejects.toMatchObject({
      status: {
        code: 403,
        message: 'pods "a" is forbidden: error looking up service account default/ci: serviceaccount "ci" not found',
      },
    });
    await client().create(ServiceAccount, { metadata: { namespace: "default", name: "ci" } });
    expect((await create("default", "a", { serviceAccountName: "ci" })).spec.serviceAccountName).toBe("ci");
  });

  it("is awaited in a new namespace if it is the default one", async () => {
    await client().create(Namespace, { metadata: { name: "new" } });
    const created = create("new", "early");
    await awaitPendingTimer();
    await client().create(ServiceAccount, {
      metadata: { namespace: "new", name: "default" },
      ...{ imagePullSecrets: [{ name: "registry" }] },
    });
    expect((await created).spec).toMatchObject({ serviceAccountName: "default", imagePullSecrets: [{ name: "registry" }] });
    expect(clock.pendingTimers).toBe(0);
    const own = await create("new", "own", { imagePullSecrets: [{ name: "mine" }] });
    expect(own.spec).toMatchObject({ imagePullSecrets: [{ name: "mine" }] });
  });

  it("is awaited briefly, and not at all if the namespace does not exist", async () => {
    await client().create(Namespace, { metadata: { name: "empty" } });
    const refused = expect(create("empty", "a")).rejects.toThrow('serviceaccount "default" not found');
    await awaitPendingTimer();
    await clock.advance(1_500);
    await refused;
    await expect(create("missing", "a")).rejects.toMatchObject({ status: { code: 404, details: { kind: "namespaces" } } });
  });
});
