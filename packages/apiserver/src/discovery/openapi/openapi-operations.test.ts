import { beforeAll, describe, expect, it } from "vitest";
import { builtinKinds } from "../../registry/builtin-kinds.ts";
import { crdResources } from "../../registry/crd/crd-resources.ts";
import { asCrd } from "../../registry/crd/crd-spec.ts";
import { setField, valueAt } from "../../registry/object-fields.ts";
import { noReviews, widgetCrd } from "../../registry/testing/crd-samples.ts";
import { createDiscoveryHandler } from "../discovery-handler.ts";

let v2: unknown;
let v3: unknown;

beforeAll(async () => {
  const crd = widgetCrd();
  setField(valueAt(crd, "spec", "versions", 0, "subresources") as object, "scale", {
    specReplicasPath: ".spec.n",
    statusReplicasPath: ".status.n",
  });
  setField(crd, "status", { conditions: [{ type: "Established", status: "True" }] });
  const served = [...builtinKinds({ clock: { now: () => 0 }, reviews: noReviews }), ...crdResources(asCrd(crd))];
  const registry = { list: () => served, onChange: () => () => undefined };
  const { handle } = createDiscoveryHandler(registry, { checks: {} });
  const read = async (path: string): Promise<unknown> => {
    const outcome = await handle({ method: "GET", path, headers: {}, query: {}, user: { username: "u", groups: [] } });
    return outcome?.kind === "document" ? outcome.body : undefined;
  };
  v2 = await read("/openapi/v2");
  v3 = await read("/openapi/v3/api/v1");
});

const configMaps = "/api/v1/namespaces/{namespace}/configmaps";
const operation = (path: string, method: string, ...steps: (string | number)[]): unknown =>
  valueAt(v2, "paths", path, method, ...steps);
const namesOf = (parameters: unknown): unknown[] =>
  Array.isArray(parameters) ? parameters.map((entry: unknown) => valueAt(entry, "name")) : [];

describe("OpenAPI operations", () => {
  it.each([
    [configMaps, "get", "listCoreV1NamespacedConfigMap"],
    [configMaps, "delete", "deleteCoreV1CollectionNamespacedConfigMap"],
    [`${configMaps}/{name}`, "put", "replaceCoreV1NamespacedConfigMap"],
    ["/api/v1/configmaps", "get", "listCoreV1ConfigMapForAllNamespaces"],
    ["/api/v1/nodes/{name}/status", "patch", "patchCoreV1NodeStatus"],
    ["/apis/rbac.authorization.k8s.io/v1/clusterroles", "post", "createRbacAuthorizationV1ClusterRole"],
    ["/apis/example.com/v1/namespaces/{namespace}/widgets/{name}", "get", "readExampleComV1NamespacedWidget"],
  ])("have the ID and the tag that client generators use: %s %s", (path, method, id) => {
    expect(operation(path, method, "operationId")).toBe(id);
    expect(operation(path, method, "tags")).toHaveLength(1);
  });

  it("are tagged with their group version", () => {
    expect(operation(configMaps, "get", "tags")).toEqual(["core_v1"]);
    expect(operation("/apis/rbac.authorization.k8s.io/v1/clusterroles", "get", "tags")).toEqual(["rbacAuthorization_v1"]);
  });

  it.each([
    [configMaps, "get", ["200", "401"]],
    [configMaps, "post", ["200", "201", "202", "401"]],
    [configMaps, "delete", ["200", "401"]],
    [`${configMaps}/{name}`, "put", ["200", "201", "401"]],
    [`${configMaps}/{name}`, "patch", ["200", "201", "401"]],
    [`${configMaps}/{name}`, "delete", ["200", "202", "401"]],
  ])("list the responses: %s %s", (path, method, statuses) => {
    expect(Object.keys(Object(operation(path, method, "responses")))).toEqual(statuses);
    expect(Object.keys(Object(valueAt(v3, "paths", path, method, "responses")))).toEqual(statuses);
    expect(operation(path, method, "responses", "401")).toEqual({ description: "Unauthorized" });
  });

  it("accept delete options in an optional body", () => {
    const schema = { $ref: "#/definitions/io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions" };
    expect(operation(`${configMaps}/{name}`, "delete", "parameters", 0)).toEqual({ name: "body", in: "body", schema });
    expect(valueAt(v3, "paths", `${configMaps}/{name}`, "delete", "requestBody")).not.toHaveProperty("required");
  });

  it("share the parameters of a path with one operation", () => {
    const path = "/api/v1/namespaces/{namespace}/pods/{name}/eviction";
    expect(namesOf(operation(path, "parameters"))).toEqual([
      "dryRun",
      "fieldManager",
      "fieldValidation",
      "name",
      "namespace",
      "pretty",
    ]);
    expect(namesOf(operation(path, "post", "parameters"))).toEqual(["body"]);
    expect(namesOf(operation("/api/v1/configmaps", "parameters"))).toContain("labelSelector");
    expect(namesOf(operation(configMaps, "parameters"))).toEqual(["namespace", "pretty"]);
  });

  it("on custom objects have kube-apiserver's own rules for CustomResourceDefinitions", () => {
    const widgets = "/apis/example.com/v1/namespaces/{namespace}/widgets";
    expect(Object.keys(Object(operation(`${widgets}/{name}`, "patch", "responses")))).toEqual(["200", "401"]);
    expect(namesOf(operation(`${widgets}/{name}`, "get", "parameters"))).toEqual(["resourceVersion"]);
    expect(namesOf(operation(widgets, "delete", "parameters"))).toContain("watch");
    expect(namesOf(operation(widgets, "delete", "parameters"))).not.toContain("body");
    expect(operation(`${widgets}/{name}/scale`, "put", "x-kubernetes-group-version-kind")).toEqual({
      group: "example.com",
      kind: "Widget",
      version: "v1",
    });
    expect(
      operation("/apis/apps/v1/namespaces/{namespace}/deployments/{name}/scale", "put", "x-kubernetes-group-version-kind"),
    ).toEqual({
      group: "autoscaling",
      kind: "Scale",
      version: "v1",
    });
  });

  it("refer to the metadata of a list in a way that keeps its description", () => {
    const name = "io.k8s.api.core.v1.ConfigMapList";
    const reference = "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta";
    const metadata = valueAt(v3, "components", "schemas", name, "properties", "metadata");
    expect(metadata).toMatchObject({ allOf: [{ $ref: `#/components/schemas/${reference}` }] });
    expect(valueAt(v2, "definitions", name, "properties", "metadata")).toMatchObject({ $ref: `#/definitions/${reference}` });
  });

  it("offer strategic merge patches for built-in kinds only", () => {
    const strategic = "application/strategic-merge-patch+json";
    expect(operation(`${configMaps}/{name}`, "patch", "consumes")).toContain(strategic);
    const widget = "/apis/example.com/v1/namespaces/{namespace}/widgets/{name}";
    expect(operation(widget, "patch", "consumes")).toContain("application/merge-patch+json");
    expect(operation(widget, "patch", "consumes")).not.toContain(strategic);
  });

  it.each([
    ["pods/{name}/exec", "get", "connectCoreV1GetNamespacedPodExec", "PodExecOptions"],
    ["pods/{name}/portforward", "post", "connectCoreV1PostNamespacedPodPortforward", "PodPortForwardOptions"],
    ["services/{name}/proxy", "head", "connectCoreV1HeadNamespacedServiceProxy", "ServiceProxyOptions"],
    ["pods/{name}/proxy/{path}", "options", "connectCoreV1OptionsNamespacedPodProxyWithPath", "PodProxyOptions"],
  ])("describe connections, which take their options in the query: %s %s", (path, method, id, kind) => {
    expect(operation(`/api/v1/namespaces/{namespace}/${path}`, method)).toEqual({
      tags: ["core_v1"],
      operationId: id,
      schemes: ["https"],
      consumes: ["*/*"],
      produces: ["*/*"],
      responses: { 200: { description: "OK", schema: { type: "string" } }, 401: { description: "Unauthorized" } },
      "x-kubernetes-action": "connect",
      "x-kubernetes-group-version-kind": { group: "", kind, version: "v1" },
    });
  });

  it("return text from the log of a Pod", () => {
    const path = "/api/v1/namespaces/{namespace}/pods/{name}/log";
    expect(operation(path, "get", "responses", "200", "schema")).toEqual({ type: "string" });
    expect(operation(path, "get", "produces")).toContain("text/plain");
    expect(namesOf(operation(path, "parameters"))).toContain("tailLines");
  });

  it("return the deleted object of kinds whose deletes do", () => {
    const deleted = (plural: string): unknown =>
      operation(`/api/v1/namespaces/{namespace}/${plural}/{name}`, "delete", "responses", "200", "schema", "$ref");
    expect(deleted("pods")).toBe("#/definitions/io.k8s.api.core.v1.Pod");
    expect(deleted("configmaps")).toBe("#/definitions/io.k8s.apimachinery.pkg.apis.meta.v1.Status");
  });
});
