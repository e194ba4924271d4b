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

describe("the token of a service account", () => {
  const tokenPath = "/var/run/secrets/kubernetes.io/serviceaccount";
  const tokenVolume = (name: string) => ({
    name,
    projected: {
      defaultMode: 420,
      sources: [
        { serviceAccountToken: { expirationSeconds: 3607, path: "token" } },
        { configMap: { name: "kube-root-ca.crt", items: [{ key: "ca.crt", path: "ca.crt" }] } },
        { downwardAPI: { items: [{ path: "namespace", fieldRef: { apiVersion: "v1", fieldPath: "metadata.namespace" } }] } },
      ],
    },
  });
  const mount = (name: string) => ({ name, readOnly: true, mountPath: tokenPath });
  beforeAll(async () => {
    await client().create(Namespace, { metadata: { name: "tokens" } });
    await client().create(ServiceAccount, { metadata: { namespace: "tokens", name: "default" } });
    await client().create(ServiceAccount, {
      metadata: { namespace: "tokens", name: "quiet" },
      automountServiceAccountToken: false,
    });
  });

  it("is mounted into every container that mounts nothing at its path", async () => {
    const own = { name: "own", mountPath: tokenPath };
    const { spec } = await create("tokens", "all", {
      initContainers: [{ name: "i", image: "a" }],
      containers: [
        { name: "a", image: "a", volumeMounts: [{ name: "own", mountPath: "/own" }] },
        { name: "b", image: "a", volumeMounts: [own] },
      ],
      volumes: [{ name: "own", emptyDir: {} }],
    });
    const name = spec.volumes?.[1]?.name ?? "";
    expect(name).toMatch(/^kube-api-access-[a-z0-9]{5}$/);
    expect(spec.volumes).toEqual([{ name: "own", emptyDir: {} }, tokenVolume(name)]);
    expect(spec.initContainers?.[0]?.volumeMounts).toEqual([mount(name)]);
    expect(spec.containers.map(({ volumeMounts }) => volumeMounts)).toEqual([
      [{ name: "own", mountPath: "/own" }, mount(name)],
      [own],
    ]);
  });

  it("comes from a volume that is named as such, if there is one", async () => {
    const { spec } = await create("tokens", "named", { volumes: [{ name: "kube-api-access-mine", emptyDir: {} }] });
    expect(spec.volumes).toEqual([{ name: "kube-api-access-mine", emptyDir: {} }]);
    expect(spec.containers[0]?.volumeMounts).toEqual([mount("kube-api-access-mine")]);
  });

  it("adds no volume that no container would mount", async () => {
    const volumes = [{ name: "own", emptyDir: {} }];
    const containers = [{ name: "a", image: "a", volumeMounts: [{ name: "own", mountPath: tokenPath }] }];
    expect((await create("tokens", "unused", { volumes, containers })).spec.volumes).toEqual(volumes);
  });

  it.each([
    { account: "default", ofPod: undefined, isMounted: true },
    { account: "default", ofPod: false, isMounted: false },
    { account: "quiet", ofPod: undefined, isMounted: false },
    { account: "quiet", ofPod: true, isMounted: true },
  ])("is mounted: $isMounted, if the Pod says $ofPod and the account is $account", async ({ account, ofPod, isMounted }) => {
    const { spec } = await create("tokens", `${account}-${String(ofPod)}`, {
      serviceAccountName: account,
      ...(ofPod !== undefined && { automountServiceAccountToken: ofPod }),
    });
    expect(spec.volumes !== undefined).toBe(isMounted);
    expect(spec.containers[0]?.volumeMounts !== undefined).toBe(isMounted);
  });
});
