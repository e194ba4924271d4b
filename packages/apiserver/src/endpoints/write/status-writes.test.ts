import type { KubernetesObject } from "@keelson/api-machinery";
import { ConfigMap, Deployment, Node, Pod, Service } from "@keelson/api-machinery/kinds";
import { createClient } from "@keelson/client";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { startTestEnvironment, type TestEnvironment } from "../../testing/test-environment.ts";
import { requestError, sendRequest, type TestResponse } from "../testing/send-request.ts";

let environment: TestEnvironment;
beforeAll(async () => {
  environment = await startTestEnvironment();
});
afterAll(() => environment.stop());

const client = () => createClient({ transport: environment.transport(), fieldManager: "tester" });
const service = (name: string) => ({
  metadata: { namespace: "default", name },
  spec: { type: "LoadBalancer" as const, ports: [{ port: 80 }] },
});
const balanced = (ip: string) => ({ status: { loadBalancer: { ingress: [{ ip }] } } });

describe("a write through status", () => {
  it("shares unchanged parts with the stored object", async () => {
    const created = await client().create(Service, service("shared"));
    const { metadata } = service("shared");
    const patched = await client().patch(
      Service,
      metadata,
      { type: "merge", body: balanced("192.0.2.1") },
      { subresource: "status" },
    );
    expect(patched.spec).toBe(created.spec);
    const applied = await client().applyStatus(Service, { metadata, ...balanced("192.0.2.2") }, { force: true });
    const again = await client().applyStatus(Service, { metadata, ...balanced("192.0.2.3") });
    expect(again.spec).toBe(created.spec);
    const fieldsOf = (object: KubernetesObject) => object.metadata.managedFields?.map(({ fieldsV1 }) => fieldsV1) ?? [];
    expect(fieldsOf(applied as KubernetesObject)).toHaveLength(2);
    expect(fieldsOf(again as KubernetesObject)[1]).toBe(fieldsOf(applied as KubernetesObject)[1]);
    expect(again.status?.loadBalancer).toEqual({ ingress: [{ ip: "192.0.2.3", ipMode: "VIP" }] });
  });

  it("does not validate the rest of the object, which stays as stored", async () => {
    const { store } = environment;
    await client().create(Service, service("older"));
    const key = "/services/default/older";
    const stored = store.get(key);
    if (stored === undefined) throw new Error("the Service is not stored");
    const spec = { ...(stored.object as { spec?: object }).spec, sessionAffinity: "Sometimes" };
    await store.write(key, stored.revision, { ...stored.object, spec } as unknown as KubernetesObject);
    const path = "/api/v1/namespaces/default/services/older";
    expect((await sendRequest(environment, "PATCH", path, { spec: { sessionAffinity: "Never" } }, "merge")).code).toBe(422);
    const { code, body } = await sendRequest(environment, "PATCH", `${path}/status`, balanced("192.0.2.1"), "merge");
    expect(code).toBe(200);
    expect(body["spec"]).toEqual(spec);
  });

  it("is rejected if any part of the body cannot be decoded", async () => {
    await client().create(Service, service("undecoded"));
    const path = "/api/v1/namespaces/default/services/undecoded/status";
    const { code, body } = await sendRequest(environment, "PATCH", path, { spec: { ports: "none" } }, "merge");
    expect([code, body["message"]]).toEqual([422, expect.stringContaining("cannot unmarshal string")]);
    const ignored = await sendRequest(
      environment,
      "PATCH",
      path,
      { spec: { type: "NodePort" }, ...balanced("192.0.2.9") },
      "merge",
    );
    expect(ignored.body).toMatchObject({ spec: { type: "LoadBalancer" }, ...balanced("192.0.2.9") });
  });

  it("has addresses of a load balancer only while the Service has one", async () => {
    await client().create(Service, service("retyped"));
    const path = "/api/v1/namespaces/default/services/retyped";
    const assign = (): Promise<TestResponse> =>
      sendRequest(environment, "PATCH", `${path}/status`, balanced("192.0.2.1"), "merge");
    expect((await assign()).code).toBe(200);
    const spec = { type: "ClusterIP", allocateLoadBalancerNodePorts: null, externalTrafficPolicy: null };
    const retyped = await sendRequest(environment, "PATCH", path, { spec }, "merge");
    expect([retyped.code, retyped.body["status"]]).toEqual([200, { loadBalancer: {} }]);
    expect((await assign()).body["message"]).toContain("may only be used when `spec.type` is 'LoadBalancer'");
  });

  it.each([
    [{ ip: "x" }, "FieldValueInvalid ip"],
    [{ hostname: "A_b" }, "FieldValueInvalid hostname"],
    [{ hostname: "1.1.1.1" }, "FieldValueInvalid hostname"],
    [{ ip: "192.0.2.1", ipMode: "x" }, "FieldValueNotSupported ipMode"],
    [{ ipMode: "VIP" }, "FieldValueForbidden ipMode"],
  ])("rejects the address %o", async (address, expected) => {
    const name = `checked-${Object.keys(address).join("-").toLowerCase()}-${Object.values(address)[0]?.length ?? 0}`;
    await client().create(Service, service(name));
    const body = { status: { loadBalancer: { ingress: [address] } } };
    const path = `/api/v1/namespaces/default/services/${name}/status`;
    const [reason, field] = expected.split(" ");
    expect(await requestError(environment, "PATCH", path, body, "merge")).toEqual([
      "422 Invalid",
      `${reason} status.loadBalancer.ingress[0].${field}`,
    ]);
  });

  it("is validated and defaulted by the rules of the status", async () => {
    const labels = { app: "a" };
    const metadata = { namespace: "default", name: "counted" };
    const template = { metadata: { labels }, spec: { containers: [{ name: "a", image: "a" }] } };
    await client().create(Deployment, { metadata, spec: { selector: { matchLabels: labels }, template } });
    const path = "/apis/apps/v1/namespaces/default/deployments/counted/status";
    const counted = await sendRequest(environment, "PATCH", path, { status: { replicas: 1, readyReplicas: 2 } }, "merge");
    expect([counted.code, counted.body["message"]]).toEqual([422, expect.stringContaining("cannot be greater than")]);

    await client().create(Node, { metadata: { name: "sized" } });
    const sized = await sendRequest(
      environment,
      "PATCH",
      "/api/v1/nodes/sized/status",
      { status: { capacity: { cpu: "1000m" } } },
      "merge",
    );
    expect(sized.body["status"]).toMatchObject({ capacity: { cpu: "1" }, allocatable: { cpu: "1" } });

    const pod = { namespace: "default", name: "addressed" };
    await client().create(Pod, { metadata: pod, spec: { containers: [{ name: "a", image: "a" }] } });
    const addressed = await client().patch(
      Pod,
      pod,
      { type: "merge", body: { status: { podIP: "192.0.2.7" } } },
      { subresource: "status" },
    );
    expect(addressed.status?.podIPs).toEqual([{ ip: "192.0.2.7" }]);
  });
});

it("a write keeps the stored managedFields of other managers and accepts the client's own", async () => {
  const metadata = { namespace: "default", name: "fields" };
  const created = await client().create(ConfigMap, { metadata, data: { a: "1" } });
  const labelled = await client().patch(ConfigMap, metadata, {
    type: "merge",
    body: { metadata: { labels: { x: "y" } } },
  });
  expect(labelled.metadata.managedFields).toHaveLength(1);
  expect(created.metadata.managedFields?.[0]?.fieldsV1).not.toEqual(labelled.metadata.managedFields?.[0]?.fieldsV1);
  const path = "/api/v1/namespaces/default/configmaps/fields";
  const wrong = { metadata: { managedFields: [{ manager: 1 }] } };
  expect((await sendRequest(environment, "PATCH", path, wrong, "merge")).code).toBe(422);
  const reset = await sendRequest(environment, "PATCH", path, { metadata: { managedFields: [{}] } }, "merge");
  expect(reset.body["metadata"].managedFields).toBeUndefined();
});
