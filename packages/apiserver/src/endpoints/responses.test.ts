import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { startTestEnvironment, type TestEnvironment } from "../testing/test-environment.ts";
import { sendRequest, type RequestArguments, requestError } from "./testing/send-request.ts";

let environment: TestEnvironment;
beforeAll(async () => {
  environment = await startTestEnvironment();
});
afterAll(() => environment.stop());

const send = (...request: RequestArguments) => sendRequest(environment, ...request);
const errorOf = (...request: RequestArguments) => requestError(environment, ...request);

const maps = "/api/v1/namespaces/default/configmaps";
const pods = "/api/v1/namespaces/default/pods";
const map = (name: string, metadata: object = {}, more: object = {}): object => ({
  apiVersion: "v1",
  kind: "ConfigMap",
  metadata: { name, ...metadata },
  ...more,
});
const pod = (name: string, spec: object = {}): object => ({
  apiVersion: "v1",
  kind: "Pod",
  metadata: { name },
  spec: { containers: [{ name: "c", image: "i" }], ...spec },
});
const owner = (uid: string, apiVersion = "v1"): object => ({ apiVersion, kind: "ConfigMap", name: "o", uid });

describe("rejects", () => {
  it.each<[string, RequestArguments, string[]]>([
    ["a resourceVersion at creation", ["POST", maps, map("a", { resourceVersion: "5" })], ["500"]],
    ["an empty dryRun", ["POST", `${maps}?dryRun=`, map("a")], ["422 Invalid", "FieldValueNotSupported dryRun"]],
    ["a replace of a missing object by uid", ["PUT", `${maps}/gone`, map("gone", { uid: "u" })], ["404 NotFound"]],
    ["a name that is not a segment of a path", ["GET", `${maps}/a%25b`], ["400 BadRequest"]],
    [
      "every invalid option of an apply",
      ["PATCH", `${maps}/a?dryRun=x&fieldValidation=x`, map("a"), "apply"],
      [
        "422 Invalid",
        "FieldValueRequired fieldManager",
        "FieldValueNotSupported dryRun",
        "FieldValueNotSupported fieldValidation",
      ],
    ],
    [
      "a finalizer without a domain",
      ["POST", maps, map("a", { finalizers: ["mine"] })],
      ["422 Invalid", "FieldValueInvalid metadata.finalizers[0]"],
    ],
    [
      "both finalizers of the garbage collector",
      ["POST", maps, map("a", { finalizers: ["orphan", "foregroundDeletion"] })],
      ["422 Invalid", "FieldValueInvalid metadata.finalizers"],
    ],
    [
      "an owner with an invalid apiVersion",
      ["POST", maps, map("a", { ownerReferences: [owner("u", "a/b/c")] })],
      ["422 Invalid", "FieldValueInvalid metadata.ownerReferences.apiVersion"],
    ],
    ["a Pod with an unknown PriorityClass", ["POST", pods, pod("a", { priorityClassName: "nonesuch" })], ["403 Forbidden"]],
    ["a Pod with an explicit priority", ["POST", pods, pod("a", { priority: 5 })], ["403 Forbidden"]],
  ])("%s", async (_, request, answer) => {
    expect(await errorOf(...request)).toEqual(answer);
  });

  it("a patch whose result is not an object of the kind, without naming a kind", async () => {
    await send("POST", maps, map("typed"));
    const { body } = await send("PATCH", `${maps}/typed`, { data: 5 }, "merge");
    expect(body["details"]).toEqual({ causes: [expect.objectContaining({ field: "patch" })] });
  });
});

describe("normalization", () => {
  it("removes duplicate owner references and warns the client", async () => {
    const { body, warnings } = await send(
      "POST",
      maps,
      map("owned", { ownerReferences: [owner("u"), owner("u"), owner("v")] }),
    );
    expect(body["metadata"].ownerReferences.map(({ uid }: { uid: string }) => uid)).toEqual(["u", "v"]);
    expect(warnings).toEqual([expect.stringContaining("duplicate UID(s) observed: u")]);
  });

  it("drops the namespace of cluster-scoped objects", async () => {
    const kind = { apiVersion: "v1", kind: "Namespace", metadata: { name: "bare", namespace: "other" } };
    expect((await send("POST", "/api/v1/namespaces", kind)).body["metadata"].namespace).toBeUndefined();
    expect((await send("PUT", "/api/v1/namespaces/bare", kind)).code).toBe(200);
  });

  it("reads null as an empty string in a map of strings", async () => {
    expect((await send("POST", maps, map("nulls", {}, { data: { a: null } }))).body["data"]).toEqual({ a: "" });
  });

  it("adds empty metadata to templates without metadata", async () => {
    const template = { spec: { restartPolicy: "Never", containers: [{ name: "c", image: "i" }] } };
    const spec = { schedule: "@daily", jobTemplate: { spec: { template } } };
    const path = "/apis/batch/v1/namespaces/default/cronjobs";
    const { body } = await send("POST", path, { apiVersion: "batch/v1", kind: "CronJob", metadata: { name: "c" }, spec });
    expect(body["spec"].jobTemplate).toMatchObject({ metadata: {}, spec: { template: { metadata: {} } } });
    expect(JSON.stringify(body["metadata"].managedFields)).not.toContain("f:metadata");
  });

  it("reports a missing required number as 0, out of range", async () => {
    const path = "/api/v1/namespaces/default/services";
    const service = { apiVersion: "v1", kind: "Service", metadata: { name: "s" }, spec: { ports: [{}] } };
    expect(await errorOf("POST", path, service)).toContain("FieldValueInvalid spec.ports[0].port");
  });
});

describe("metadata", () => {
  it("reports every invalid field of an owner reference, and a second controller", async () => {
    const invalid = { apiVersion: "", kind: "", name: "", uid: "" };
    expect(await errorOf("POST", maps, map("a", { ownerReferences: [invalid] }))).toEqual([
      "422 Invalid",
      ...["apiVersion", "kind", "name", "uid"].map((name) => `FieldValueInvalid metadata.ownerReferences.${name}`),
    ]);
    const controllers = ["u", "v"].map((uid) => ({ ...owner(uid), controller: true }));
    const { body } = await send("POST", maps, map("a", { ownerReferences: controllers }));
    expect(body["details"].causes[0].message).toContain(
      'Only one reference can have Controller set to true. Found "true" in references for',
    );
  });

  it("reports a second controller in the order of the owner references", async () => {
    const controllers = ["u", "v"].map((uid) => ({ ...owner(uid), controller: true }));
    const ownerReferences = [...controllers, { ...owner("w"), name: "" }];
    expect(await errorOf("POST", maps, map("a", { ownerReferences }))).toEqual([
      "422 Invalid",
      "FieldValueInvalid metadata.ownerReferences",
      "FieldValueInvalid metadata.ownerReferences.name",
    ]);
  });

  it("of a CronJob can be changed through its status, that of a FlowSchema cannot", async () => {
    const template = { spec: { restartPolicy: "Never", containers: [{ name: "c", image: "i" }] } };
    const spec = { schedule: "@daily", jobTemplate: { spec: { template } } };
    const path = "/apis/batch/v1/namespaces/default/cronjobs";
    await send("POST", path, { metadata: { name: "annotated" }, spec });
    const annotations = { patched: "true" };
    const patch = { metadata: { annotations } };
    expect((await send("PATCH", `${path}/annotated/status`, patch, "merge")).body["metadata"].annotations).toEqual(annotations);
    const schemas = "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas/probes";
    const { body } = await send("PATCH", `${schemas}/status`, patch, "merge");
    expect(body["metadata"].annotations["patched"]).toBeUndefined();
  });
});

describe("the status of a Pod", () => {
  const status = (name: string, value: object) => send("PATCH", `${pods}/${name}/status`, { status: value }, "merge");
  beforeAll(async () => {
    await send("POST", pods, pod("p"));
    await send("POST", pods, pod("once", { restartPolicy: "Never" }));
  });

  it("adds Go's zero values to container statuses", async () => {
    const { body } = await status("p", { containerStatuses: [{ name: "c", state: { running: {} } }] });
    expect(body["status"].containerStatuses).toEqual([
      {
        name: "c",
        image: "",
        imageID: "",
        ready: false,
        restartCount: 0,
        state: { running: { startedAt: null } },
        lastState: {},
      },
    ]);
  });

  it("keeps podIP and podIPs in sync; podIP wins", async () => {
    expect((await status("p", { podIPs: [{ ip: "192.0.2.1" }] })).body["status"].podIP).toBe("192.0.2.1");
    expect((await status("p", { podIP: "192.0.2.2" })).body["status"].podIPs).toEqual([{ ip: "192.0.2.2" }]);
  });

  it.each([
    [{ podIP: "far" }, "FieldValueInvalid status.podIPs[0]"],
    [{ podIP: "192.0.2.2", podIPs: [{ ip: "192.0.2.2" }, { ip: "192.0.2.3" }] }, "FieldValueInvalid status.podIPs"],
    [{ nominatedNodeName: "No_Node" }, "FieldValueInvalid status.nominatedNodeName"],
  ])("is rejected: %j", async (value, cause) => {
    expect(await errorOf("PATCH", `${pods}/p/status`, { status: value }, "merge")).toEqual(["422 Invalid", cause]);
  });

  it("rejects a terminated container that runs again although it is not restarted", async () => {
    expect((await status("once", { containerStatuses: [{ name: "c", state: { terminated: {} } }] })).code).toBe(200);
    const running = { containerStatuses: [{ name: "c", state: { running: {} } }] };
    expect(await errorOf("PATCH", `${pods}/once/status`, { status: running }, "merge")).toEqual([
      "422 Invalid",
      "FieldValueForbidden status.containerStatuses[0].state",
    ]);
  });

  it("rejects changes of existing ephemeral containers", async () => {
    const path = `${pods}/p/ephemeralcontainers`;
    const set = (containers: object[]) => ({ spec: { ephemeralContainers: containers } });
    expect((await send("PATCH", path, set([{ name: "e", image: "i" }]), "strategic")).code).toBe(200);
    const rejection = ["422 Invalid", "FieldValueForbidden spec.ephemeralContainers"];
    expect(await errorOf("PATCH", path, set([{ name: "e", image: "j" }]), "strategic")).toEqual(rejection);
    expect(await errorOf("PATCH", path, set([]), "merge")).toEqual(rejection);
    expect((await errorOf("PATCH", `${pods}/p`, set([{ name: "f", image: "i" }]), "strategic"))[0]).toBe("422 Invalid");
  });
});

describe("the scale of a Deployment", () => {
  const deployments = "/apis/apps/v1/namespaces/default/deployments";
  const scale = (replicas: unknown, metadata: object = {}): object => ({
    apiVersion: "autoscaling/v1",
    kind: "Scale",
    metadata: { name: "d", ...metadata },
    spec: { replicas },
  });
  const deployment = (replicas?: number): object => ({
    apiVersion: "apps/v1",
    kind: "Deployment",
    metadata: { name: "d" },
    spec: {
      ...(replicas === undefined ? {} : { replicas }),
      selector: { matchLabels: { a: "b" } },
      template: { metadata: { labels: { a: "b" } }, spec: { containers: [{ name: "c", image: "i" }] } },
    },
  });
  beforeAll(() => send("PATCH", `${deployments}/d?fieldManager=owner`, deployment(1), "apply"));

  it("can be applied: its manager owns the object's replicas, and other managers conflict", async () => {
    const path = `${deployments}/d/scale?fieldManager=scaler`;
    expect(await errorOf("PATCH", path, scale(3), "apply")).toEqual(["409 Conflict", "FieldManagerConflict .spec.replicas"]);
    const { body } = await send("PATCH", `${path}&force=true`, scale(3), "apply");
    expect(body).toMatchObject({ kind: "Scale", spec: { replicas: 3 } });
    const entries = (await send("GET", `${deployments}/d`)).body["metadata"].managedFields as Record<string, unknown>[];
    expect(entries.find(({ manager }) => manager === "scaler")).toMatchObject({
      operation: "Apply",
      apiVersion: "apps/v1",
      subresource: "scale",
      fieldsV1: { "f:spec": { "f:replicas": {} } },
    });
    expect(await errorOf("PATCH", `${deployments}/d?fieldManager=owner`, deployment(1), "apply")).toEqual([
      "409 Conflict",
      "FieldManagerConflict .spec.replicas",
    ]);
  });

  it("accepts strategic merge patches", async () => {
    const { body } = await send("PATCH", `${deployments}/d/scale`, { spec: { replicas: 2 } }, "strategic");
    expect(body["spec"]).toEqual({ replicas: 2 });
  });

  it.each<[string, RequestArguments, string[]]>([
    ["a string for a number", ["PUT", `${deployments}/d/scale`, scale("two")], ["400 BadRequest"]],
    [
      "a patch to a string",
      ["PATCH", `${deployments}/d/scale`, { spec: { replicas: "two" } }, "merge"],
      ["422 Invalid", "FieldValueInvalid patch"],
    ],
    ["another uid", ["PUT", `${deployments}/d/scale`, scale(2, { uid: "u" })], ["409 Conflict"]],
    ["an apply to a missing object", ["PATCH", `${deployments}/e/scale?fieldManager=m`, scale(2), "apply"], ["404 NotFound"]],
  ])("rejects %s", async (_, request, answer) => {
    expect(await errorOf(...request)).toEqual(answer);
  });
});

describe("create-only subresources", () => {
  const target = { kind: "Node", name: "n" };
  const binding = (name: string, more: object = {}): object => ({
    apiVersion: "v1",
    kind: "Binding",
    metadata: { name },
    target,
    ...more,
  });
  beforeAll(async () => {
    await send("POST", pods, pod("loose"));
    await send("POST", pods, pod("two", { containers: ["a", "b"].map((name) => ({ name, image: "i" })) }));
  });

  it.each<[string, RequestArguments, string[]]>([
    ["a read of a binding", ["GET", `${pods}/loose/binding`], ["405 MethodNotAllowed"]],
    ["a read of an eviction", ["GET", `${pods}/loose/eviction`], ["405 MethodNotAllowed"]],
    ["a Binding of another kind", ["POST", `${pods}/loose/binding`, binding("loose", { kind: "Pod" })], ["400 BadRequest"]],
    [
      "a Binding of another namespace",
      ["POST", `${pods}/loose/binding`, binding("loose", { metadata: { name: "loose", namespace: "other" } })],
      ["400 BadRequest"],
    ],
    ["the log of a missing Pod", ["GET", `${pods}/none/log`], ["404 NotFound"]],
    ["the log of an unknown container", ["GET", `${pods}/loose/log?container=x`], ["400 BadRequest"]],
    ["the log of a Pod with several containers, without naming one", ["GET", `${pods}/two/log`], ["400 BadRequest"]],
    [
      "bad log options",
      ["GET", `${pods}/loose/log?tailLines=-1&limitBytes=0&sinceSeconds=0`],
      ["422 Invalid", "FieldValueInvalid tailLines", "FieldValueInvalid limitBytes", "FieldValueInvalid sinceSeconds"],
    ],
  ])("reject %s", async (_, request, answer) => {
    expect(await errorOf(...request)).toEqual(answer);
  });

  it("bind the Pod that the body names", async () => {
    expect((await send("POST", "/api/v1/namespaces/default/bindings", binding("loose"))).code).toBe(201);
    expect((await send("GET", `${pods}/loose`)).body["spec"].nodeName).toBe("n");
    expect(await errorOf("GET", `${pods}/loose/log`)).toEqual(["404 NotFound"]);
    expect(await errorOf("GET", "/api/v1/namespaces/default/bindings")).toEqual(["405 MethodNotAllowed"]);
  });

  const reviews = "/apis/authorization.k8s.io/v1";
  const resourceAttributes = { verb: "get", resource: "pods" };
  it.each([
    [`${reviews}/selfsubjectaccessreviews`, { metadata: { name: "x" }, spec: { resourceAttributes } }, ["metadata"]],
    [
      `${reviews}/selfsubjectaccessreviews`,
      { spec: { resourceAttributes, nonResourceAttributes: { path: "/", verb: "get" } } },
      ["spec.nonResourceAttributes"],
    ],
    [`${reviews}/subjectaccessreviews`, { spec: {} }, ["spec.resourceAttributes", "spec.user"]],
    [
      `${reviews}/namespaces/default/localsubjectaccessreviews`,
      { spec: { user: "u", resourceAttributes: { ...resourceAttributes, namespace: "other" } } },
      ["spec.resourceAttributes.namespace"],
    ],
  ])("reject invalid reviews: %s %j", async (path, body, fields) => {
    expect(await errorOf("POST", path, body)).toEqual(["422 Invalid", ...fields.map((field) => `FieldValueInvalid ${field}`)]);
  });
});

describe("the options of a list or a watch", () => {
  it.each<[string, string[]]>([
    ["limit=-1", ["200"]],
    ["limit=few", ["400 BadRequest"]],
    ["timeoutSeconds=long", ["400 BadRequest"]],
    ["watch=true&timeoutSeconds=long", ["400 BadRequest"]],
    ["sendInitialEvents=true", ["422 Invalid", "FieldValueForbidden sendInitialEvents"]],
    [
      "resourceVersionMatch=Sometimes",
      ["422 Invalid", "FieldValueForbidden resourceVersionMatch", "FieldValueNotSupported resourceVersionMatch"],
    ],
    [
      "watch=true&resourceVersionMatch=Exact",
      ["422 Invalid", "FieldValueForbidden resourceVersionMatch", "FieldValueNotSupported resourceVersionMatch"],
    ],
    ["watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan", ["200"]],
  ])("%s", async (query, answer) => {
    expect(await errorOf("GET", `${maps}?${query}`)).toEqual(answer);
  });

  it("rejects namespaces in a namespace", async () => {
    expect(await errorOf("GET", "/api/v1/namespaces/default/namespaces")).toEqual(["404 NotFound"]);
  });
});

describe("a body that cannot be decoded", () => {
  const deployment = (spec: object, metadata: object = {}): object => ({
    apiVersion: "apps/v1",
    kind: "Deployment",
    metadata: { name: "d", ...metadata },
    spec,
  });
  it.each([
    [deployment({ replicas: "3" }), "string", "DeploymentSpec.spec.replicas of type int32"],
    [deployment({ replicas: 1.5 }), "number 1.5", "DeploymentSpec.spec.replicas of type int32"],
    [
      deployment({ template: { spec: { containers: [{ name: 5 }] } } }),
      "number",
      "Container.spec.template.spec.containers.name of type string",
    ],
    [
      deployment({ template: { spec: { containers: {} } } }),
      "object",
      "PodSpec.spec.template.spec.containers of type []v1.Container",
    ],
    [
      deployment({ selector: { matchLabels: { "a.b/c": 5 } } }),
      "number",
      "LabelSelector.spec.selector.matchLabels of type string",
    ],
    [deployment({}, { labels: { a: true } }), "bool", "ObjectMeta.metadata.labels of type string"],
    [deployment({}, { finalizers: [5] }), "number", "ObjectMeta.metadata.finalizers of type string"],
    [
      deployment({}, { ownerReferences: [{ uid: 5 }] }),
      "number",
      "OwnerReference.metadata.ownerReferences.uid of type types.UID",
    ],
  ])("is reported with the message of Go's decoder: %j", async (object, value, target) => {
    const { code, body } = await send("POST", "/apis/apps/v1/namespaces/default/deployments", object);
    expect([code, body["message"]]).toEqual([
      400,
      'Deployment in version "v1" cannot be handled as a Deployment: json: cannot unmarshal ' +
        `${value} into Go struct field ${target}`,
    ]);
  });
});

describe("a DaemonSet", () => {
  it("counts its template generations in an annotation that clients cannot change", async () => {
    const path = "/apis/apps/v1/namespaces/default/daemonsets";
    const name = "deprecated.daemonset.template.generation";
    const template = { metadata: { labels: { a: "b" } }, spec: { containers: [{ name: "c", image: "i" }] } };
    const set = { apiVersion: "apps/v1", kind: "DaemonSet", metadata: { name: "s" } };
    const body = { ...set, spec: { selector: { matchLabels: { a: "b" } }, template } };
    const count = (answer: { body: { [key: string]: { annotations: Record<string, string> } } }): unknown =>
      answer.body["metadata"]?.annotations[name];
    expect(count(await send("POST", path, body))).toBe("1");
    expect(count(await send("PUT", `${path}/s`, body))).toBe("1");
    expect(count(await send("PATCH", `${path}/s`, { metadata: { annotations: { [name]: "9" } } }, "merge"))).toBe("1");
    const changed = { spec: { template: { metadata: { annotations: { x: "y" } } } } };
    expect(count(await send("PATCH", `${path}/s`, changed, "merge"))).toBe("2");
  });
});
