import { isJsonObject, type JsonObject } from "@keelson/api-machinery";
import { createVirtualClock } from "@keelson/api-machinery/testing";
import { afterEach, beforeEach, expect, it } from "vitest";
import { createRbacAuthorizer } from "../auth/rbac/rbac-authorizer.ts";
import type { Outcome } from "../endpoints/outcome.ts";
import type { UserInfo } from "../registry/served-resource.ts";
import { systemUser } from "../system-user.ts";
import { startTestEnvironment, type TestEnvironment } from "../testing/test-environment.ts";

let events: JsonObject[];
let environment: TestEnvironment;
const cleanups: (() => unknown)[] = [];
beforeEach(() => {
  events = [];
});
afterEach(async () => {
  for (const cleanup of cleanups.splice(0)) await cleanup();
});

async function start(rules: readonly JsonObject[], rest: JsonObject = {}): Promise<void> {
  const policy: JsonObject = { apiVersion: "audit.k8s.io/v1", kind: "Policy", rules: [...rules], ...rest };
  const clock = createVirtualClock();
  environment = await startTestEnvironment({ clock, audit: { policy, onEvent: (event) => events.push(event) } });
  cleanups.push(() => environment.stop());
}

const send = (method: "GET" | "POST" | "PATCH" | "DELETE", path: string, more: object = {}): Promise<Outcome> =>
  environment.handle({ method, path, user: systemUser, userAgent: "test", ...more });

const configMaps = "/api/v1/namespaces/default/configmaps";
const secrets = "/api/v1/namespaces/default/secrets";
const named = (kind: string, name: string, rest: object = {}): object => ({
  apiVersion: "v1",
  kind,
  metadata: { name },
  ...rest,
});
const annotationsOf = (event: JsonObject | undefined): JsonObject =>
  isJsonObject(event?.["annotations"]) ? event["annotations"] : {};

it("records a request when it arrives and when its response is complete", async () => {
  await start([{ level: "Metadata" }]);
  await send("POST", configMaps, { query: { dryRun: "All" }, body: named("ConfigMap", "a", { data: { k: "v" } }) });
  const [received, complete, ...others] = events;
  expect(others).toEqual([]);
  const objectRef = { resource: "configmaps", namespace: "default", apiVersion: "v1" };
  const common = {
    kind: "Event",
    apiVersion: "audit.k8s.io/v1",
    level: "Metadata",
    auditID: expect.stringMatching(/^[0-9a-f-]{36}$/),
    requestURI: `${configMaps}?dryRun=All`,
    verb: "create",
    user: { username: "system:apiserver", groups: ["system:masters", "system:authenticated"] },
    userAgent: "test",
    requestReceivedTimestamp: "2026-01-01T00:00:00.000000Z",
    stageTimestamp: "2026-01-01T00:00:00.000000Z",
  };
  expect(received).toEqual({ ...common, stage: "RequestReceived", objectRef });
  expect(complete).toEqual({
    ...common,
    auditID: received?.["auditID"],
    stage: "ResponseComplete",
    objectRef: { ...objectRef, name: "a" },
    responseStatus: { metadata: {}, code: 201 },
    annotations: { "authorization.k8s.io/decision": "allow", "authorization.k8s.io/reason": "" },
  });
});

it("records bodies only at the levels that ask for them", async () => {
  const stages = { omitStages: ["RequestReceived"] };
  await start(
    [
      { level: "Metadata", resources: [{ group: "", resources: ["secrets"] }] },
      { level: "Request", resources: [{ group: "", resources: ["serviceaccounts"] }] },
      { level: "RequestResponse" },
    ],
    stages,
  );
  await send("POST", secrets, { body: named("Secret", "s", { stringData: { password: "hunter2" } }) });
  await send("GET", secrets);
  await send("POST", "/api/v1/namespaces/default/serviceaccounts", { body: named("ServiceAccount", "r") });
  await send("POST", configMaps, { body: named("ConfigMap", "c", { data: { k: "v" } }) });
  await send("GET", configMaps);
  const [secret, secretList, account, configMap, list] = events;
  expect(JSON.stringify([secret, secretList])).not.toMatch(/hunter2|aHVudGVyMg|requestObject|responseObject/);
  expect(account).toMatchObject({ requestObject: named("ServiceAccount", "r") });
  expect(account).not.toHaveProperty("responseObject");
  // The request as it was sent, and the response with everything that the server added.
  expect(configMap?.["requestObject"]).toEqual(named("ConfigMap", "c", { data: { k: "v" } }));
  expect(configMap).toMatchObject({ responseObject: { kind: "ConfigMap", metadata: { uid: expect.any(String) } } });
  expect(list).toMatchObject({ responseObject: { kind: "ConfigMapList", items: [{ metadata: { name: "c" } }] } });
});

it("records a patch as it was sent, and omits managed fields if the policy says so", async () => {
  await start([{ level: "RequestResponse", omitStages: ["RequestReceived"] }], { omitManagedFields: true });
  await send("POST", configMaps, { body: named("ConfigMap", "c") });
  const headers = { "content-type": "application/merge-patch+json" };
  await send("PATCH", `${configMaps}/c`, { headers, body: { data: { k: "v" } } });
  await send("GET", configMaps);
  const [create, patch, list] = events;
  expect(create).toMatchObject({ responseObject: { metadata: { name: "c" } } });
  expect(patch).toMatchObject({ verb: "patch", requestObject: { data: { k: "v" } }, responseObject: { data: { k: "v" } } });
  expect(list).toMatchObject({ responseObject: { items: [{ metadata: { name: "c" } }] } });
  expect(JSON.stringify(events)).not.toContain("managedFields");
});

it("records denied and failed requests with their Status", async () => {
  await start([{ level: "Metadata", omitStages: ["RequestReceived"] }]);
  const user: UserInfo = { username: "alice", groups: ["system:authenticated"] };
  await send("GET", `${configMaps}/x`, { user });
  await send("GET", `${configMaps}/x`);
  const [denied, missing] = events;
  expect(denied).toMatchObject({
    user: { username: "alice" },
    responseStatus: { metadata: {}, status: "Failure", reason: "Forbidden", code: 403 },
    annotations: { "authorization.k8s.io/decision": "forbid", "authorization.k8s.io/reason": "" },
  });
  expect(missing).toMatchObject({ responseStatus: { reason: "NotFound", message: 'configmaps "x" not found', code: 404 } });
});

it("names the binding that allows a request", async () => {
  await start([{ level: "Metadata", users: ["alice"] }]);
  const user: UserInfo = { username: "alice", groups: ["system:authenticated"] };
  const rbac = createRbacAuthorizer(environment.store);
  cleanups.push(() => rbac.close());
  await send("GET", "/api", { user });
  expect(annotationsOf(events.at(-1))).toEqual({
    "authorization.k8s.io/decision": "allow",
    "authorization.k8s.io/reason": rbac.authorize(user, "get", { path: "/api" }).reason,
  });
  expect(annotationsOf(events.at(-1))["authorization.k8s.io/reason"]).toMatch(/^RBAC: allowed by ClusterRoleBinding /);
});

it("records when a watch starts and when it ends", async () => {
  await start([{ level: "Metadata" }]);
  const outcome = await send("GET", configMaps, { query: { watch: "1" } });
  expect(events.map(({ stage }) => stage)).toEqual(["RequestReceived", "ResponseStarted"]);
  if (outcome.kind !== "watch") throw new TypeError("not a watch");
  outcome.open({ events: () => undefined, end: () => undefined }).close();
  expect(events.map(({ stage, responseStatus }) => [stage, responseStatus])).toEqual([
    ["RequestReceived", undefined],
    ["ResponseStarted", { metadata: {}, code: 200 }],
    ["ResponseComplete", { metadata: {}, code: 200 }],
  ]);
});

it("records nothing at the level None, and leaves out bodies beyond 4 MiB", async () => {
  await start([
    { level: "None", verbs: ["create"] },
    { level: "RequestResponse", omitStages: ["RequestReceived"] },
  ]);
  const data = { text: "x".repeat(900_000) };
  for (const name of ["a", "b", "c", "d", "e"]) await send("POST", configMaps, { body: named("ConfigMap", name, { data }) });
  expect(events).toEqual([]);
  await send("GET", configMaps);
  expect(events).toMatchObject([{ verb: "list", annotations: { "audit.k8s.io/truncated": "true" } }]);
  expect(events[0]).not.toHaveProperty("responseObject");
});

it("records what Pod Security enforces and would deny", async () => {
  await start([{ level: "Metadata", verbs: ["create"], resources: [{ group: "*", resources: ["pods", "deployments"] }] }], {
    omitStages: ["RequestReceived"],
  });
  const labels = { "pod-security.kubernetes.io/enforce": "baseline", "pod-security.kubernetes.io/audit": "restricted" };
  await send("POST", "/api/v1/namespaces", { body: { apiVersion: "v1", kind: "Namespace", metadata: { name: "n", labels } } });
  const spec = { containers: [{ name: "c", image: "i" }] };
  const violations =
    /^would violate PodSecurity "restricted:latest": allowPrivilegeEscalation != false \(container "c" must set/;
  await send("POST", "/api/v1/namespaces/n/pods", { body: named("Pod", "p", { spec }) });
  await send("POST", "/api/v1/namespaces/n/pods", { body: named("Pod", "q", { spec: { ...spec, hostPID: true } }) });
  const template = { metadata: { labels: { a: "b" } }, spec };
  const deployment = { selector: { matchLabels: { a: "b" } }, template };
  const body = { apiVersion: "apps/v1", kind: "Deployment", metadata: { name: "d" }, spec: deployment };
  await send("POST", "/apis/apps/v1/namespaces/n/deployments", { body });
  expect(events.map(annotationsOf)).toMatchObject([
    {
      "pod-security.kubernetes.io/enforce-policy": "baseline:latest",
      "pod-security.kubernetes.io/audit-violations": expect.stringMatching(violations),
    },
    {
      "pod-security.kubernetes.io/enforce-policy": "baseline:latest",
      "pod-security.kubernetes.io/audit-violations": expect.stringMatching(/^would violate PodSecurity "restricted:latest": /),
    },
    { "pod-security.kubernetes.io/audit-violations": expect.stringMatching(violations) },
  ]);
  expect(events[1]).toMatchObject({ responseStatus: { code: 403 } });
});

it("records the failures and annotations of ValidatingAdmissionPolicies", async () => {
  await start([{ level: "Metadata", verbs: ["create"], resources: [{ group: "", resources: ["configmaps"] }] }], {
    omitStages: ["RequestReceived"],
  });
  const group = "/apis/admissionregistration.k8s.io/v1";
  const object = (kind: string, name: string, spec: object): object => ({
    ...{ apiVersion: "admissionregistration.k8s.io/v1", kind, metadata: { name }, spec },
  });
  const rule = { apiGroups: [""], apiVersions: ["v1"], operations: ["*"], resources: ["configmaps"] };
  const policy = {
    matchConstraints: { resourceRules: [rule] },
    validations: [{ expression: "true" }, { expression: "!has(object.data)", message: "has data" }],
    auditAnnotations: [
      { key: "name", valueExpression: "'created ' + object.metadata.name" },
      { key: "empty", valueExpression: "''" },
    ],
  };
  await send("POST", `${group}/validatingadmissionpolicies`, {
    body: object("ValidatingAdmissionPolicy", "p.example.com", policy),
  });
  const binding = { policyName: "p.example.com", validationActions: ["Audit"] };
  await send("POST", `${group}/validatingadmissionpolicybindings`, {
    body: object("ValidatingAdmissionPolicyBinding", "b", binding),
  });
  await send("POST", configMaps, { body: named("ConfigMap", "c", { data: { k: "v" } }) });
  const failure = {
    message: "has data",
    policy: "p.example.com",
    binding: "b",
    expressionIndex: 1,
    validationActions: ["Audit"],
  };
  const { "authorization.k8s.io/decision": _, "authorization.k8s.io/reason": __, ...annotations } = annotationsOf(events[0]);
  expect(annotations).toEqual({
    "validation.policy.admission.k8s.io/validation_failure": JSON.stringify([failure]),
    "p.example.com/name": "created c",
  });
});

it("rejects an invalid policy", async () => {
  const audit = { policy: { apiVersion: "audit.k8s.io/v1", kind: "Policy", rules: [] }, onEvent: () => undefined };
  await expect(startTestEnvironment({ audit })).rejects.toThrow("rules: Required value: must have at least one rule");
});
