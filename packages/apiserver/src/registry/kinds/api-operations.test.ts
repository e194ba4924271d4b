import "reflect-metadata";
import { webcrypto } from "node:crypto";
import * as x509 from "@peculiar/x509";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { requestError, type RequestArguments, sendRequest, type TestResponse } from "../../endpoints/testing/send-request.ts";
import { startTestEnvironment, type TestEnvironment } from "../../testing/test-environment.ts";

let environment: TestEnvironment;
beforeAll(async () => {
  environment = await startTestEnvironment();
});
afterAll(() => environment.stop());

const send = (...request: RequestArguments): Promise<TestResponse> => sendRequest(environment, ...request);

describe("kinds of storage, networking and devices", () => {
  const claim = { devices: { requests: [{ name: "gpu", exactly: { deviceClassName: "gpu.example" } }] } };
  const parentRef = { group: "", resource: "services", namespace: "default", name: "s" };
  it.each([
    ["/apis/storage.k8s.io/v1/csidrivers", "CSIDriver", "d.example", { spec: {} }],
    ["/apis/storage.k8s.io/v1/csinodes", "CSINode", "n", { spec: { drivers: [{ name: "d", nodeID: "n" }] } }],
    [
      "/apis/storage.k8s.io/v1/volumeattachments",
      "VolumeAttachment",
      "va",
      { spec: { attacher: "d", nodeName: "n", source: { persistentVolumeName: "pv" } } },
    ],
    ["/apis/storage.k8s.io/v1/namespaces/default/csistoragecapacities", "CSIStorageCapacity", "c", { storageClassName: "s" }],
    [
      "/apis/storage.k8s.io/v1/volumeattributesclasses",
      "VolumeAttributesClass",
      "v",
      { driverName: "d", parameters: { a: "b" } },
    ],
    ["/apis/networking.k8s.io/v1/ipaddresses", "IPAddress", "192.0.2.1", { spec: { parentRef } }],
    ["/apis/networking.k8s.io/v1/ipaddresses", "IPAddress", "2001:db8::1", { spec: { parentRef } }],
    ["/apis/networking.k8s.io/v1/servicecidrs", "ServiceCIDR", "extra", { spec: { cidrs: ["192.0.2.0/24"] } }],
    ["/apis/resource.k8s.io/v1/deviceclasses", "DeviceClass", "gpu.example", { spec: {} }],
    ["/apis/resource.k8s.io/v1/namespaces/default/resourceclaims", "ResourceClaim", "c", { spec: claim }],
    [
      "/apis/resource.k8s.io/v1/namespaces/default/resourceclaimtemplates",
      "ResourceClaimTemplate",
      "t",
      { spec: { spec: claim } },
    ],
    [
      "/apis/resource.k8s.io/v1/resourceslices",
      "ResourceSlice",
      "s",
      { spec: { driver: "d.example", nodeName: "n", pool: { name: "p", resourceSliceCount: 1, generation: 0 } } },
    ],
  ])("%s: create, patch, get and delete", async (path, kind, name, fields) => {
    const apiVersion = path.split("/").slice(2, 4).join("/");
    const created = await send("POST", path, { apiVersion, kind, metadata: { name }, ...fields });
    expect([created.code, created.body["kind"]]).toEqual([201, kind]);
    const patched = await send("PATCH", `${path}/${name}`, { metadata: { labels: { a: "b" } } }, "merge");
    expect([patched.code, patched.body["metadata"].labels]).toEqual([200, { a: "b" }]);
    expect((await send("GET", `${path}/${name}`)).code).toBe(200);
    expect((await send("DELETE", `${path}/${name}`)).code).toBe(200);
    expect((await send("GET", `${path}/${name}`)).code).toBe(404);
  });

  it("reject changes of what identifies them", async () => {
    const path = "/apis/storage.k8s.io/v1/volumeattributesclasses";
    const body = {
      apiVersion: "storage.k8s.io/v1",
      kind: "VolumeAttributesClass",
      metadata: { name: "fixed" },
      driverName: "d",
      parameters: { a: "b" },
    };
    await send("POST", path, body);
    expect(await requestError(environment, "PATCH", `${path}/fixed`, { driverName: "e" }, "merge")).toEqual([
      "422 Invalid",
      "FieldValueForbidden driverName",
    ]);
    const cidr = { apiVersion: "networking.k8s.io/v1", kind: "ServiceCIDR", metadata: { name: "bad" }, spec: { cidrs: ["x"] } };
    expect(await requestError(environment, "POST", "/apis/networking.k8s.io/v1/servicecidrs", cidr)).toEqual([
      "422 Invalid",
      "FieldValueInvalid spec.cidrs[0]",
    ]);
  });
});

async function certificateRequest(subject: string): Promise<string> {
  const algorithm = { name: "ECDSA", namedCurve: "P-256", hash: "SHA-256" };
  const keys = await webcrypto.subtle.generateKey(algorithm, true, ["sign", "verify"]);
  const request = await x509.Pkcs10CertificateRequestGenerator.create({ name: subject, keys, signingAlgorithm: algorithm });
  return Buffer.from(request.toString("pem")).toString("base64");
}

/** A certificate as PEM in base64. */
async function selfSigned(name: string): Promise<string> {
  const signingAlgorithm = { name: "ECDSA", namedCurve: "P-256", hash: "SHA-256" };
  const keys = await webcrypto.subtle.generateKey(signingAlgorithm, true, ["sign", "verify"]);
  const certificate = await x509.X509CertificateGenerator.createSelfSigned({ name, keys, signingAlgorithm });
  return Buffer.from(certificate.toString("pem")).toString("base64");
}

describe("CertificateSigningRequests", () => {
  const path = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
  const object = async (name: string, spec: object = {}, subject = "CN=jane"): Promise<object> => ({
    apiVersion: "certificates.k8s.io/v1",
    kind: "CertificateSigningRequest",
    metadata: { name },
    spec: {
      request: await certificateRequest(subject),
      signerName: "kubernetes.io/kube-apiserver-client",
      usages: ["client auth"],
      ...spec,
    },
  });
  const csr = (content: string): string => Buffer.from(`-----BEGIN CERTIFICATE REQUEST-----${content}`).toString("base64");
  const approved = { type: "Approved", status: "True", reason: "Test", message: "" };

  it("record who sent them, and keep their spec", async () => {
    const { code, body } = await send("POST", path, await object("a", { username: "another-user" }));
    expect([code, body["spec"].username, body["status"]]).toEqual([201, "system:apiserver", {}]);
    const changed = await send("PATCH", `${path}/a`, { spec: { usages: ["server auth"] } }, "merge");
    expect(changed.body["spec"].usages).toEqual(["client auth"]);
  });

  it("are decided through approval alone, and a decision is final", async () => {
    await send("POST", path, await object("b"));
    expect(
      await requestError(environment, "PATCH", `${path}/b/status`, { status: { conditions: [approved] } }, "merge"),
    ).toEqual(["422 Invalid", "FieldValueForbidden status.conditions"]);
    const decided = await send("PATCH", `${path}/b/approval`, { status: { conditions: [approved] } }, "merge");
    expect(decided.body["status"].conditions).toMatchObject([{ type: "Approved", lastUpdateTime: expect.any(String) }]);
    const denied = { status: { conditions: [{ ...approved, type: "Denied" }] } };
    expect(await requestError(environment, "PATCH", `${path}/b/approval`, denied, "merge")).toEqual([
      "422 Invalid",
      "FieldValueForbidden status.conditions",
    ]);
    const certificate = await selfSigned("CN=first");
    const signed = await send("PATCH", `${path}/b/status`, { status: { certificate } }, "merge");
    expect([signed.body["status"].certificate, signed.body["status"].conditions.length]).toEqual([certificate, 1]);
    for (const status of [{ certificate: await selfSigned("CN=second") }, { conditions: [] }, { certificate: "cGVt" }]) {
      expect(await requestError(environment, "PATCH", `${path}/b/status`, { status }, "merge")).toContain("422 Invalid");
    }
  });

  it.each([
    [{ request: Buffer.from("x").toString("base64") }, "FieldValueInvalid spec.request"],
    // Takes minutes if the lines are read again for each line.
    [{ request: csr("\n".repeat(200_000)) }, "FieldValueInvalid spec.request"],
    [{ request: csr("AAAA\n".repeat(60_000)) }, "FieldValueInvalid spec.request"],
    [{ usages: [] }, "FieldValueRequired spec.usages"],
    [{ usages: ["anything"] }, "FieldValueNotSupported spec.usages[0]"],
    [{ usages: ["client auth", "client auth"] }, "FieldValueDuplicate spec.usages[1]"],
    [{ signerName: "kubernetes.io/legacy-unknown" }, "FieldValueInvalid spec.signerName"],
    [{ signerName: "signer" }, "FieldValueInvalid spec.signerName"],
    [{ expirationSeconds: 599 }, "FieldValueInvalid spec.expirationSeconds"],
  ])("with invalid fields are rejected, case %#", async (spec, cause) => {
    expect(await requestError(environment, "POST", path, await object("c", spec))).toEqual(["422 Invalid", cause]);
  });

  it("with thousands of repeated usages report a limited number of causes", async () => {
    const usages = Array.from({ length: 39_000 }, (_, index) => `usage-${index}`).fill("client auth", 0, 20_000);
    const { code, body } = await send("POST", path, await object("c", { usages }));
    expect([code, body["details"].causes.length]).toEqual([422, 1_000]);
  });

  it("cannot ask for a client certificate of system:masters", async () => {
    expect(await requestError(environment, "POST", path, await object("d", {}, "O=system:masters,CN=x"))).toEqual([
      "403 Forbidden",
    ]);
  });

  it("need permission to approve for their signer", async () => {
    await send("POST", path, await object("e"));
    const rbac = "/apis/rbac.authorization.k8s.io/v1";
    const metadata = { name: "csr-approver" };
    const rules = [
      { verbs: ["update"], apiGroups: ["certificates.k8s.io"], resources: ["certificatesigningrequests/approval"] },
      { verbs: ["get"], apiGroups: ["certificates.k8s.io"], resources: ["certificatesigningrequests"] },
    ];
    await send("POST", `${rbac}/clusterroles`, {
      apiVersion: "rbac.authorization.k8s.io/v1",
      kind: "ClusterRole",
      metadata,
      rules,
    });
    await send("POST", `${rbac}/clusterrolebindings`, {
      apiVersion: "rbac.authorization.k8s.io/v1",
      kind: "ClusterRoleBinding",
      metadata,
      roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "ClusterRole", name: "csr-approver" },
      subjects: [{ apiGroup: "rbac.authorization.k8s.io", kind: "User", name: "approver" }],
    });
    const { body } = await send("GET", `${path}/e`);
    const update = (): ReturnType<typeof environment.handle> =>
      environment.handle({
        method: "PUT",
        path: `${path}/e/approval`,
        user: { username: "approver", groups: ["system:authenticated"] },
        body: { ...body, status: { conditions: [approved] } },
      });
    const refused = await update();
    expect(refused.kind === "status" && refused.status.message).toContain(
      'user not permitted to approve requests with signerName "kubernetes.io/kube-apiserver-client"',
    );
    const signers = {
      verbs: ["approve"],
      apiGroups: ["certificates.k8s.io"],
      resources: ["signers"],
      resourceNames: ["kubernetes.io/*"],
    };
    await send("PATCH", `${rbac}/clusterroles/csr-approver`, { rules: [...rules, signers] }, "merge");
    expect((await update()).kind).toBe("object");
  });
});
