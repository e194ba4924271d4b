import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { type RequestArguments, sendRequest, type TestResponse } from "../../endpoints/testing/send-request.ts";
import { startTestEnvironment, type TestEnvironment } from "../../testing/test-environment.ts";
import { patchResponse, startTestWebhook, type TestWebhook } from "../../webhooks/testing/test-webhook.ts";

let environment: TestEnvironment;
let webhook: TestWebhook;
beforeAll(async () => void (webhook = await startTestWebhook(["127.0.0.1"])));
afterAll(() => webhook.stop());
beforeEach(async () => void (environment = await startTestEnvironment()));
afterEach(() => environment.stop());

const send = (...request: RequestArguments): Promise<TestResponse> => sendRequest(environment, ...request);
const policies = "/apis/admissionregistration.k8s.io/v1beta1/mutatingadmissionpolicies";
const bindings = "/apis/admissionregistration.k8s.io/v1beta1/mutatingadmissionpolicybindings";
const configMaps = "/api/v1/namespaces/default/configmaps";
const rule = { apiGroups: [""], apiVersions: ["v1"], operations: ["*"], resources: ["configmaps"] };

const apply = (expression: string): object => ({ patchType: "ApplyConfiguration", applyConfiguration: { expression } });
const jsonPatch = (expression: string): object => ({ patchType: "JSONPatch", jsonPatch: { expression } });
const policySpec = (mutations: readonly object[], rest: object = {}): object => ({
  matchConstraints: { resourceRules: [rule] },
  reinvocationPolicy: "Never",
  mutations,
  ...rest,
});

async function install(name: string, mutations: readonly object[], rest: object = {}, binding: object = {}): Promise<void> {
  const policy = await send("POST", policies, { metadata: { name }, spec: policySpec(mutations, rest) });
  expect(policy.code, policy.body["message"]).toBe(201);
  const bound = await send("POST", bindings, { metadata: { name: `${name}-b` }, spec: { policyName: name, ...binding } });
  expect(bound.code, bound.body["message"]).toBe(201);
}

const create = (name: string, rest: object = {}): Promise<TestResponse> =>
  send("POST", configMaps, { metadata: { name }, ...rest });

describe("a mutating policy", () => {
  it("applies its mutations in order, each to the result of the previous one", async () => {
    await install("p", [
      apply('Object{data: {"a": "1"}}'),
      jsonPatch('[JSONPatch{op: "copy", from: "/data/a", path: "/data/b"}]'),
      apply("Object{metadata: Object.metadata{labels: object.data}}"),
    ]);
    expect((await create("x")).body).toMatchObject({ metadata: { labels: { a: "1", b: "1" } }, data: { a: "1", b: "1" } });
    expect((await send("PATCH", `${configMaps}/x`, { data: { a: "2" } }, "merge")).body).toMatchObject({
      data: { a: "1", b: "1" },
    });
    expect((await send("DELETE", `${configMaps}/x`)).code).toBe(200);
  });

  it("runs once per parameter, and denies requests without parameters if the binding says so", async () => {
    const mutation = jsonPatch('[JSONPatch{op: "add", path: "/data/" + params.metadata.name, value: variables.value}]');
    await install(
      "p",
      [mutation],
      {
        paramKind: { apiVersion: "v1", kind: "ConfigMap" },
        variables: [{ name: "value", expression: "params.data.value" }],
        matchConditions: [{ name: "marked", expression: "'marked' in object.data" }],
      },
      { paramRef: { selector: { matchLabels: { param: "yes" } }, parameterNotFoundAction: "Deny" } },
    );
    const denial =
      "policy 'p' with binding 'p-b' denied request: failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction";
    expect((await create("x", { data: { marked: "" } })).body).toMatchObject({
      code: 403,
      reason: "Forbidden",
      message: denial,
    });
    await send("DELETE", `${bindings}/p-b`);
    for (const name of ["one", "two"])
      await create(name, { metadata: { name, labels: { param: "yes" } }, data: { value: name } });
    const paramRef = { selector: { matchLabels: { param: "yes" } }, parameterNotFoundAction: "Deny" };
    await send("POST", bindings, { metadata: { name: "p-b" }, spec: { policyName: "p", paramRef } });
    expect((await create("x", { data: { marked: "" } })).body["data"]).toEqual({ marked: "", one: "one", two: "two" });
    expect((await create("y", { data: { other: "" } })).body["data"]).toEqual({ other: "" });
  });

  it("denies the request if a mutation fails, unless its failure policy is Ignore", async () => {
    const expression = "Object{data: {'a': object.data.missing}}";
    await install("p", [apply(expression), apply("Object{spec: Object.spec{}}")]);
    const denied = "policy 'p' with binding 'p-b' denied request:";
    const [first, second] = [
      `${denied} expression '${expression}' resulted in error: no such key: missing`,
      `${denied} error applying patch: failed to convert patch object to typed object: .spec: field not declared in schema`,
    ];
    expect((await create("x", { data: { b: "" } })).body).toMatchObject({
      code: 403,
      reason: "Invalid",
      message: first,
      details: { name: "x", kind: "configmaps", causes: [{ message: first }, { message: second }] },
    });
    await send("PATCH", `${policies}/p`, { spec: { failurePolicy: "Ignore" } }, "merge");
    expect((await create("x", { data: { b: "" } })).body["data"]).toEqual({ b: "" });
  });

  it("rejects changes of atomic values and patches that do not apply", async () => {
    const pods = { resourceRules: [{ ...rule, resources: ["pods"] }] };
    await install("p", [apply('Object{spec: Object.spec{containers: [Object.spec.containers{name: "a", args: ["x"]}]}}')], {
      matchConstraints: pods,
    });
    const pod = { metadata: { name: "x" }, spec: { containers: [{ name: "a", image: "i" }] } };
    const why = "may not mutate atomic arrays, maps or structs: .spec.containers[0].args";
    expect((await send("POST", "/api/v1/namespaces/default/pods", pod)).body["message"]).toBe(
      `policy 'p' with binding 'p-b' denied request: error applying patch: invalid ApplyConfiguration: ${why}`,
    );
    await install("q", [jsonPatch('[JSONPatch{op: "remove", path: "/data/none"}]')]);
    expect((await create("x", { data: { a: "" } })).body).toMatchObject({
      code: 403,
      message: expect.stringContaining("JSONPath: "),
    });
  });

  it("sees objects in the version of the matched rule", async () => {
    const events = { apiGroups: ["events.k8s.io"], apiVersions: ["v1"], operations: ["CREATE"], resources: ["events"] };
    await install("p", [apply('Object{note: object.note + "!"}')], { matchConstraints: { resourceRules: [events] } });
    const event = { metadata: { name: "e" }, involvedObject: { namespace: "default" }, message: "hello" };
    expect((await send("POST", "/api/v1/namespaces/default/events", event)).body["message"]).toBe("hello!");
  });

  it("runs before webhooks, and again after their changes with the reinvocation policy IfNeeded", async () => {
    webhook.on("/add", () => patchResponse([{ op: "add", path: "/data/webhook", value: "1" }]));
    const hook = {
      name: "add.example.com",
      clientConfig: { url: `${webhook.url}/add`, caBundle: webhook.caBundle },
      rules: [rule],
      sideEffects: "None",
      admissionReviewVersions: ["v1"],
    };
    const configuration = { metadata: { name: "w" }, webhooks: [hook] };
    await send("POST", "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations", configuration);
    const seen = (name: string): object => apply(`Object{data: {"${name}": string(size(object.data))}}`);
    await install("again", [seen("again")], { reinvocationPolicy: "IfNeeded" });
    await install("once", [seen("once")]);
    expect((await create("x", { data: { a: "" } })).body["data"]).toEqual({ a: "", once: "2", again: "4", webhook: "1" });
  });

  it("does not apply to the configuration of admission", async () => {
    const matchConstraints = { resourceRules: [{ ...rule, apiGroups: ["*"], apiVersions: ["*"], resources: ["*"] }] };
    await install("p", [apply('Object{metadata: Object.metadata{labels: {"a": "b"}}}')], { matchConstraints });
    await install("q", [apply("Object{}")]);
    expect((await send("GET", `${policies}/q`)).body["metadata"]).not.toHaveProperty("labels");
    expect((await create("x")).body["metadata"].labels).toEqual({ a: "b" });
  });
});

it.each([
  [
    { patchType: "Other" },
    'spec.mutations[0].patchType: Unsupported value: "Other": supported values: "ApplyConfiguration", "JSONPatch"',
  ],
  [{ patchType: "JSONPatch" }, "spec.mutations[0].jsonPatch: Required value: must be specified when patchType is JSONPatch"],
  [jsonPatch(" "), "spec.mutations[0].jsonPatch.expression: Required value"],
  [
    apply("Object.spec{}"),
    'spec.mutations[0].applyConfiguration.expression: Invalid value: "Object.spec{}": must evaluate to Object but got Object.spec',
  ],
])("rejects a policy with the mutation %j", async (mutation, message) => {
  const { code, body } = await send("POST", policies, { metadata: { name: "p" }, spec: policySpec([mutation]) });
  expect({ code, message: body["message"] }).toEqual({
    code: 422,
    message: `MutatingAdmissionPolicy.admissionregistration.k8s.io "p" is invalid: ${message}`,
  });
});

it("rejects a policy for deletes, and without a reinvocation policy", async () => {
  const matchConstraints = { resourceRules: [{ ...rule, operations: ["DELETE"] }] };
  const spec = { matchConstraints, mutations: [apply("Object{}")] };
  const { body } = await send("POST", policies, { metadata: { name: "p" }, spec });
  const operations =
    'spec.matchConstraints.resourceRules.operations: Unsupported value: "DELETE": supported values: "*", "CONNECT", "CREATE", "UPDATE"';
  expect(body["message"]).toBe(
    `MutatingAdmissionPolicy.admissionregistration.k8s.io "p" is invalid: [${operations}, spec.reinvocationPolicy: Required value]`,
  );
});
