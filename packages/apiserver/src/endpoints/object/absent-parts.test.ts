import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { widgetCrd } from "../../registry/testing/crd-samples.ts";
import { systemUser } from "../../system-user.ts";
import { startTestEnvironment, type TestEnvironment } from "../../testing/test-environment.ts";

let environment: TestEnvironment;
beforeAll(async () => {
  environment = await startTestEnvironment();
});
afterAll(() => environment.stop());

/** Creates an object as a dry run. Returns the object, or `<reason> <field>` of each cause. */
async function create(path: string, body: Readonly<Record<string, unknown>>): Promise<unknown> {
  const outcome = await environment.handle({ method: "POST", path, body, query: { dryRun: "All" }, user: systemUser });
  if (outcome.kind === "object") return outcome.object.object;
  if (outcome.kind !== "status") throw new Error(`${path} returned a ${outcome.kind}`);
  return (outcome.status.details?.causes ?? []).map(({ reason, field }) => `${reason} ${field}`);
}

const metadata = { name: "a" };
const namespaced = (prefix: string, plural: string): string => `${prefix}/namespaces/default/${plural}`;

describe("a part that is a struct in Go", () => {
  it.each([
    ["Lease", "coordination.k8s.io/v1", "leases", { spec: {} }],
    ["ResourceQuota", "v1", "resourcequotas", { spec: {} }],
    ["Event", "v1", "events", { involvedObject: {} }],
  ])("is there, empty, where a %s leaves it out", async (kind, apiVersion, plural, part) => {
    const prefix = apiVersion.includes("/") ? `/apis/${apiVersion}` : `/api/${apiVersion}`;
    expect(await create(namespaced(prefix, plural), { apiVersion, kind, metadata })).toMatchObject(part);
  });

  const noContainers = "FieldValueRequired spec.template.spec.containers";
  const noSelection = ["FieldValueInvalid spec.template.metadata.labels", "FieldValueRequired spec.selector"];
  it.each([
    ["Deployment", "apps/v1", "deployments", [noContainers, ...noSelection]],
    // Unlike for a Deployment, kube-apiserver does not name the selector.
    ["DaemonSet", "apps/v1", "daemonsets", [noContainers, "FieldValueInvalid spec.template.metadata.labels"]],
    ["Job", "batch/v1", "jobs", [noContainers, "FieldValueRequired spec.template.spec.restartPolicy"]],
    ["Pod", "v1", "pods", ["FieldValueRequired spec.containers"]],
    [
      "RoleBinding",
      "rbac.authorization.k8s.io/v1",
      "rolebindings",
      ["FieldValueNotSupported roleRef.kind", "FieldValueRequired roleRef.name"],
    ],
  ])("has what is missing in it told, not that it is missing: %s", async (kind, apiVersion, plural, causes) => {
    const prefix = apiVersion.includes("/") ? `/apis/${apiVersion}` : `/api/${apiVersion}`;
    const told = (await create(namespaced(prefix, plural), { apiVersion, kind, metadata })) as string[];
    expect(told.sort()).toEqual([...causes].sort());
  });

  it("rejects a CustomResourceDefinition without versions as kube-apiserver does", async () => {
    const { spec, ...crd } = widgetCrd() as unknown as { spec: Record<string, unknown> };
    const { versions: _, ...rest } = spec;
    const path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    expect(await create(path, { ...crd, spec: rest })).toEqual([
      "FieldValueInvalid spec.versions",
      "FieldValueInvalid status.storedVersions",
    ]);
  });
});

describe("the metadata of a create", () => {
  const configMaps = namespaced("/api/v1", "configmaps");
  const configMap = { apiVersion: "v1", kind: "ConfigMap" };

  it("is rejected with an invalid generateName, which may end with a hyphen", async () => {
    expect(await create(configMaps, { ...configMap, metadata: { generateName: "A_" } })).toEqual([
      "FieldValueInvalid metadata.generateName",
      "FieldValueInvalid metadata.name",
    ]);
    expect(await create(configMaps, { ...configMap, metadata: { generateName: "a-" } })).toMatchObject(configMap);
  });

  it("reports incomplete owner references without an index, and rejects an Event as owner", async () => {
    const ownerReferences = [
      { apiVersion: "v1", kind: "ConfigMap", name: "", uid: "u1" },
      { apiVersion: "v1", kind: "Event", name: "e", uid: "u2" },
    ];
    expect(await create(configMaps, { ...configMap, metadata: { ...metadata, ownerReferences } })).toEqual([
      "FieldValueInvalid metadata.ownerReferences.name",
      "FieldValueInvalid metadata.ownerReferences",
    ]);
  });

  it("is rejected for a Pod with ephemeral containers", async () => {
    const spec = { containers: [{ name: "c", image: "i" }], ephemeralContainers: [{ name: "e", image: "i" }] };
    expect(await create(namespaced("/api/v1", "pods"), { apiVersion: "v1", kind: "Pod", metadata, spec })).toEqual([
      "FieldValueForbidden spec.ephemeralContainers",
    ]);
  });
});

describe("an empty list that Go always writes", () => {
  const apiVersionOf = (prefix: string): string => prefix.replace(/^\/apis?\//, "");
  it.each([
    ["/apis/discovery.k8s.io/v1", "EndpointSlice", "endpointslices", { addressType: "IPv4" }, { endpoints: null, ports: null }],
    ["/apis/rbac.authorization.k8s.io/v1", "Role", "roles", {}, { rules: null }],
    ["/api/v1", "LimitRange", "limitranges", { spec: {} }, { spec: { limits: null } }],
  ])("is null: %s %s", async (prefix, kind, plural, fields, expected) => {
    const object = { apiVersion: apiVersionOf(prefix), kind, metadata, ...fields };
    expect(await create(namespaced(prefix, plural), object)).toMatchObject(expected);
  });

  it("is null inside of other parts, and does not change what is there", async () => {
    const spec = { containers: [{ name: "a", image: "b" }], volumes: [{ name: "v", projected: {} }] };
    const pod = { apiVersion: "v1", kind: "Pod", metadata, spec };
    expect(await create(namespaced("/api/v1", "pods"), pod)).toMatchObject({
      spec: { containers: [{ name: "a" }], volumes: [{ name: "v", projected: { sources: null } }] },
    });
  });

  it("is null once it is stored, and owned by who sent it", async () => {
    const role = { apiVersion: "rbac.authorization.k8s.io/v1", kind: "Role", metadata, rules: [] };
    const path = namespaced("/apis/rbac.authorization.k8s.io/v1", "roles");
    const outcome = await environment.handle({ method: "POST", path, body: role, user: systemUser });
    expect(outcome.kind === "object" ? outcome.object.object : outcome).toMatchObject({
      rules: null,
      metadata: { managedFields: [{ fieldsV1: { "f:rules": {} } }] },
    });
  });
});
