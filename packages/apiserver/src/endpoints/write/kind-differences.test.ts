import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { systemUser } from "../../system-user.ts";
import { startTestEnvironment, type TestEnvironment } from "../../testing/test-environment.ts";
import { requestError, type RequestArguments, sendRequest, type TestResponse } from "../testing/send-request.ts";

// Rules in which single kinds differ, as a kube-apiserver 1.35 answers.

let environment: TestEnvironment;
beforeAll(async () => {
  environment = await startTestEnvironment();
});
afterAll(() => environment.stop());

const send = (...request: RequestArguments): Promise<TestResponse> => sendRequest(environment, ...request);
const refusal = (...request: RequestArguments): Promise<unknown> => requestError(environment, ...request);

const template = { metadata: { labels: { a: "b" } }, spec: { containers: [{ name: "c", image: "i" }] } };
const selector = { matchLabels: { a: "b" } };
const core = (plural: string) => `/api/v1/namespaces/default/${plural}`;
const grouped = (group: string, plural: string) => `/apis/${group}/namespaces/default/${plural}`;

interface Entry {
  readonly subresource?: string;
  readonly fieldsV1: Readonly<Record<string, unknown>>;
}

/** The fields of the first entry of managedFields. */
function managed({ body }: TestResponse): Readonly<Record<string, unknown>> | undefined {
  return (body["metadata"].managedFields as readonly Entry[] | undefined)?.[0]?.fieldsV1;
}

describe("the generation", () => {
  it("of a Deployment rises with its annotations, not with its labels", async () => {
    const path = grouped("apps/v1", "deployments");
    await send("POST", path, { metadata: { name: "g" }, spec: { selector, template } });
    const generationAfter = async (metadata: object): Promise<unknown> =>
      (await send("PATCH", `${path}/g`, { metadata }, "merge")).body["metadata"].generation;
    expect(await generationAfter({ labels: { x: "y" } })).toBe(1);
    expect(await generationAfter({ annotations: { x: "y" } })).toBe(2);
  });

  it("of an EndpointSlice rises with its labels", async () => {
    const path = grouped("discovery.k8s.io/v1", "endpointslices");
    await send("POST", path, { metadata: { name: "g" }, addressType: "IPv4", endpoints: [] });
    const { body } = await send("PATCH", `${path}/g`, { metadata: { labels: { x: "y" } } }, "merge");
    expect(body["metadata"].generation).toBe(2);
  });
});

describe("an update with a uid", () => {
  it.each([
    ["Service", core("services"), { spec: { ports: [{ port: 80 }] } }],
    ["RuntimeClass", "/apis/node.k8s.io/v1/runtimeclasses", { handler: "h" }],
  ])("does not create a missing %s", async (_, path, fields) => {
    const [code] = (await refusal("PUT", `${path}/deleted`, {
      metadata: { name: "deleted", uid: "1-2" },
      ...fields,
    })) as string[];
    expect(code).toBe("409 Conflict");
    expect((await send("GET", `${path}/deleted`)).code).toBe(404);
    expect((await send("PUT", `${path}/deleted`, { metadata: { name: "deleted" }, ...fields })).code).toBe(201);
  });
});

describe("an update without a resourceVersion", () => {
  it.each([
    ["PodDisruptionBudget", grouped("policy/v1", "poddisruptionbudgets"), { spec: { selector, minAvailable: 1 } }],
    ["CSIDriver", "/apis/storage.k8s.io/v1/csidrivers", { spec: {} }],
  ])("of a %s is rejected", async (_, path, fields) => {
    await send("POST", path, { metadata: { name: "u" }, ...fields });
    expect(await refusal("PUT", `${path}/u`, { metadata: { name: "u" }, ...fields })).toEqual([
      "422 Invalid",
      "FieldValueInvalid metadata.resourceVersion",
    ]);
  });

  it("creates a missing Service", async () => {
    const service = { metadata: { name: "put" }, spec: { ports: [{ port: 80 }] } };
    expect((await send("PUT", `${core("services")}/put`, service)).code).toBe(201);
  });
});

describe("a delete", () => {
  it("returns the last state of a CSIDriver", async () => {
    await send("POST", "/apis/storage.k8s.io/v1/csidrivers", { metadata: { name: "shown" }, spec: {} });
    expect((await send("DELETE", "/apis/storage.k8s.io/v1/csidrivers/shown")).body["kind"]).toBe("CSIDriver");
  });

  it("without a propagation policy orphans the Pods of a Job, and says so", async () => {
    const path = grouped("batch/v1", "jobs");
    await send("POST", path, {
      metadata: { name: "j" },
      spec: { template: { spec: { ...template.spec, restartPolicy: "Never" } } },
    });
    const { body, warnings } = await send("DELETE", `${path}/j`);
    expect(body["metadata"].finalizers).toEqual(["orphan"]);
    expect(warnings).toEqual([expect.stringContaining("child pods are preserved by default when jobs are deleted")]);
  });

  it("names group and kind in the details of a failed precondition", async () => {
    await send("POST", core("configmaps"), { metadata: { name: "d" } });
    const { body } = await send("DELETE", `${core("configmaps")}/d`, { preconditions: { uid: "other" } });
    expect(body["details"]).toEqual({ name: "d", kind: "ConfigMap" });
  });

  it("rejects a grace period that is not a number", async () => {
    const { code, body } = await send("DELETE", `${core("configmaps")}/d`, { gracePeriodSeconds: "3" });
    expect([code, body["message"]]).toEqual([
      400,
      "json: cannot unmarshal string into Go struct field DeleteOptions.gracePeriodSeconds of type int64",
    ]);
  });

  it("of a collection honours preconditions", async () => {
    await send("POST", core("configmaps"), { metadata: { name: "kept", labels: { kept: "yes" } } });
    const { code } = await send("DELETE", `${core("configmaps")}?labelSelector=kept`, { preconditions: { uid: "other" } });
    expect(code).toBe(409);
  });
});

describe("a write", () => {
  it("cannot begin deletion", async () => {
    await send("POST", core("configmaps"), { metadata: { name: "w" } });
    const metadata = { deletionTimestamp: "2020-01-01T00:00:00Z", deletionGracePeriodSeconds: 5 };
    expect(await refusal("PATCH", `${core("configmaps")}/w`, { metadata }, "merge")).toEqual([
      "422 Invalid",
      "FieldValueInvalid metadata.deletionTimestamp",
      "FieldValueInvalid metadata.deletionGracePeriodSeconds",
    ]);
  });

  it("to the status of a ResourceClaim does not change metadata", async () => {
    const path = grouped("resource.k8s.io/v1", "resourceclaims");
    const devices = { requests: [{ name: "r", exactly: { deviceClassName: "c" } }] };
    await send("POST", path, { metadata: { name: "c" }, spec: { devices } });
    const { body } = await send("PATCH", `${path}/c/status`, { metadata: { labels: { x: "y" } } }, "merge");
    expect(body["metadata"].labels).toBeUndefined();
  });

  it("to the status of a Namespace keeps the label with its name", async () => {
    await send("POST", "/api/v1/namespaces", { metadata: { name: "labelled" } });
    const { body } = await send("PATCH", "/api/v1/namespaces/labelled/status", { metadata: { labels: null } }, "merge");
    expect(body["metadata"].labels).toEqual({ "kubernetes.io/metadata.name": "labelled" });
  });

  it("warns of a TLS Secret without a key pair", async () => {
    const stringData = { "tls.crt": "no", "tls.key": "no" };
    const { warnings } = await send("POST", core("secrets"), {
      metadata: { name: "tls" },
      type: "kubernetes.io/tls",
      stringData,
    });
    expect(warnings).toEqual(["tls: failed to find any PEM data in certificate input"]);
  });

  it("finds the PEM data of an encrypted key", async () => {
    const pem = (type: string, text: string): string => `-----BEGIN ${type}-----\n${text}\n-----END ${type}-----\n`;
    const stringData = {
      "tls.crt": pem("CERTIFICATE", "AAAA"),
      "tls.key": pem("RSA PRIVATE KEY", "Proc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,00\n\nAAAA"),
    };
    const body = { metadata: { name: "encrypted" }, type: "kubernetes.io/tls", stringData };
    expect((await send("POST", core("secrets"), body)).warnings ?? []).toEqual([]);
  });
});

describe("managedFields", () => {
  it("of a Secret name data, not stringData", async () => {
    const created = await send("POST", core("secrets"), { metadata: { name: "m" }, stringData: { a: "b" } });
    expect(managed(created)).toEqual({ "f:data": { ".": {}, "f:a": {} }, "f:type": {} });
  });

  it("do not own structs that exist from the start", async () => {
    const created = await send("POST", core("podtemplates"), { metadata: { name: "m" }, template });
    expect(Object.keys(Object(managed(created)?.["f:template"]))).not.toContain(".");
  });

  it("do not own what the server copies into a claim or allocates for a Service", async () => {
    const spec = {
      accessModes: ["ReadWriteOnce"],
      resources: { requests: { storage: "1" } },
      dataSource: { kind: "PersistentVolumeClaim", name: "x" },
    };
    const claim = await send("POST", core("persistentvolumeclaims"), { metadata: { name: "m" }, spec });
    expect(Object.keys(Object(managed(claim)?.["f:spec"]))).not.toContain("f:dataSourceRef");
    const headless = { metadata: { name: "m" }, spec: { clusterIP: "None", selector: { a: "b" } } };
    expect(Object.keys(Object(managed(await send("POST", core("services"), headless))?.["f:spec"]))).not.toContain(
      "f:clusterIPs",
    );
  });

  it("of a Pod do not change when it is bound", async () => {
    await send("POST", core("pods"), { metadata: { name: "m" }, spec: template.spec });
    await send("POST", `${core("pods")}/m/binding`, { metadata: { name: "m" }, target: { kind: "Node", name: "n" } });
    const { body } = await send("GET", `${core("pods")}/m`);
    expect(body["spec"].nodeName).toBe("n");
    expect(body["metadata"].managedFields).toHaveLength(1);
  });
});

describe("a strategic merge patch", () => {
  it("of null changes nothing", async () => {
    await send("POST", core("configmaps"), { metadata: { name: "null" }, data: { a: "b" } });
    const { code, body } = await send("PATCH", `${core("configmaps")}/null`, null, "strategic");
    expect([code, body["data"]]).toEqual([200, { a: "b" }]);
  });
});

describe("an eviction", () => {
  it("says in the Pod why it is deleted", async () => {
    await send("POST", core("pods"), { metadata: { name: "e" }, spec: { ...template.spec, nodeName: "n" } });
    await send("POST", `${core("pods")}/e/eviction`, { metadata: { name: "e" } });
    const { body } = await send("GET", `${core("pods")}/e`);
    expect(body["status"].conditions).toMatchObject([
      { type: "DisruptionTarget", status: "True", reason: "EvictionByEvictionAPI", message: "Eviction API: evicting" },
    ]);
  });
});

describe("a list", () => {
  it("at version 0 is not paged", async () => {
    const outcome = await environment.handle({
      method: "GET",
      path: core("configmaps"),
      query: { resourceVersion: "0", limit: "1" },
      user: systemUser,
    });
    expect(outcome).toMatchObject({ kind: "list" });
    expect(outcome.kind === "list" && outcome.listMeta.continue).toBeUndefined();
  });

  it.each([
    ["/api/v1/namespaces", "metadata.namespace=x", "field label not supported: metadata.namespace"],
    [core("pods"), "spec.image=x", "field label not supported: spec.image"],
    [grouped("batch/v1", "jobs"), "x=y", 'field label "x" not supported for Job'],
    [
      grouped("apps/v1", "replicasets"),
      "status.replicas=1",
      '"status.replicas" is not a known field selector: only "metadata.name", "metadata.namespace"',
    ],
  ])("of %s rejects the field selector %s", async (path, fieldSelector, message) => {
    const { code, body } = await send("GET", `${path}?fieldSelector=${encodeURIComponent(fieldSelector)}`);
    expect([code, body["message"]]).toEqual([400, message]);
  });
});
