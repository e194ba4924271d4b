import type { KubernetesObject } from "@keelson/api-machinery";
import { afterEach, beforeEach, expect, it } from "vitest";
import type { Handle, Outcome } from "../../endpoints/outcome.ts";
import { valueAt } from "../../registry/object-fields.ts";
import { systemUser } from "../../system-user.ts";
import { startTestEnvironment, type TestEnvironment } from "../../testing/test-environment.ts";
import { startPolicyTypeChecks } from "./policy-type-checks.ts";

let environment: TestEnvironment;
let checks: { stop(): Promise<void> };
const errors: unknown[] = [];
beforeEach(async () => {
  environment = await startTestEnvironment();
  checks = startPolicyTypeChecks({ ...environment.server, onError: (error) => errors.push(error) });
});
afterEach(async () => {
  await checks.stop();
  await environment.stop();
  expect(errors.splice(0)).toEqual([]);
});

const path = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";
const key = "admissionregistration.k8s.io/validatingadmissionpolicies//p";
const deployments = { apiGroups: ["apps"], apiVersions: ["v1"], resources: ["deployments"] };

function policy(rules: readonly object[], validations: readonly object[], rest: object = {}): KubernetesObject {
  const resourceRules = rules.map((rule) => ({ operations: ["*"], ...rule }));
  const object = {
    apiVersion: "admissionregistration.k8s.io/v1",
    kind: "ValidatingAdmissionPolicy",
    metadata: { name: "p" },
    spec: { matchConstraints: { resourceRules }, validations, ...rest },
  };
  return object;
}

/** Creates or replaces the policy and resolves with its status once its generation is observed. */
async function statusOf(method: "POST" | "PUT", sent: KubernetesObject): Promise<unknown> {
  const { resourceVersion = "" } = environment.store.get(key)?.object.metadata ?? {};
  const body = method === "POST" ? sent : { ...sent, metadata: { ...sent.metadata, resourceVersion } };
  const outcome = await environment.handle({ method, path: method === "POST" ? path : `${path}/p`, body, user: systemUser });
  expect(outcome.kind).toBe("object");
  const { store } = environment;
  return new Promise((resolve) => {
    const check = (): void => {
      const object = store.get(key)?.object;
      if (valueAt(object, "status", "observedGeneration") !== object?.metadata.generation) return;
      watch.close();
      resolve(valueAt(object, "status"));
    };
    const watch = store.watch(key, store.revision, check);
    check();
  });
}

it("warns of fields and operators that the matched kinds do not have", async () => {
  const validations = [
    { expression: "object.replicas > 1" },
    { expression: "object.spec.replicas == '1'", messageExpression: "'is ' + object.spec.nope" },
    { expression: "object.spec.replicas > 1" },
  ];
  expect(await statusOf("POST", policy([deployments], validations))).toEqual({
    observedGeneration: 1,
    typeChecking: {
      expressionWarnings: [
        {
          fieldRef: "spec.validations[0].expression",
          warning:
            "apps/v1, Kind=Deployment: ERROR: <input>:1:7: undefined field 'replicas'\n | object.replicas > 1\n | ......^\n",
        },
        {
          fieldRef: "spec.validations[1].expression",
          warning: expect.stringContaining("found no matching overload for '_==_' applied to '(int, string)'"),
        },
        { fieldRef: "spec.validations[1].messageExpression", warning: expect.stringContaining("undefined field 'nope'") },
      ],
    },
  });
});

it("writes nothing to a policy that replaced the checked one", async () => {
  const first = policy([deployments], [{ expression: "object.nope == 1" }]);
  const second = policy([deployments], [{ expression: "true" }]);
  await checks.stop();
  const outcome = new Promise<Outcome>((resolve, reject) => {
    const handle: Handle = async (request) => {
      await environment.handle({ method: "DELETE", path: `${path}/p`, user: systemUser });
      await environment.handle({ method: "POST", path, body: second, user: systemUser });
      const result = await environment.handle(request);
      resolve(result);
      return result;
    };
    checks = startPolicyTypeChecks({ ...environment.server, handle, onError: (error) => errors.push(error) });
    environment.handle({ method: "POST", path, body: first, user: systemUser }).catch(reject);
  });
  expect(await outcome).toMatchObject({ kind: "status", status: { reason: "Invalid" } });
});

it("does not warn of expressions that fit", async () => {
  const validations = [
    "oldObject == null || object.spec.selector == oldObject.spec.selector",
    "object.metadata.namespace == 'a' || object.metadata.labels['a'] == 'b' || has(object.metadata.annotations)",
    "object.spec.template.spec.containers.all(c, c.image.startsWith('x') && variables.limit > 1)",
    "object.spec.strategy.rollingUpdate.maxSurge == '25%' && request.operation == 'CREATE'",
    "object.metadata.?labels['app'].orValue('') == '' || object.spec.template.spec.securityContext.runAsNonRoot == true",
    "authorizer.group('').resource('pods').check('get').allowed()",
  ].map((expression) => ({ expression }));
  const variables = [{ name: "limit", expression: "3" }];
  expect(await statusOf("POST", policy([deployments], validations, { variables }))).toEqual({
    observedGeneration: 1,
    typeChecking: {},
  });
});

it("checks custom resources and parameters, and ignores wildcards and unknown kinds", async () => {
  const schema = { type: "object", properties: { spec: { type: "object", properties: { size: { type: "integer" } } } } };
  const versions = [{ name: "v1", served: true, storage: true, schema: { openAPIV3Schema: schema } }];
  const names = { kind: "Widget", plural: "widgets" };
  const spec = { group: "example.com", scope: "Cluster", names, versions };
  const metadata = { name: "widgets.example.com" };
  const crd = { apiVersion: "apiextensions.k8s.io/v1", kind: "CustomResourceDefinition", metadata, spec };
  await environment.install([crd]);
  const rules = [
    { apiGroups: ["example.com"], apiVersions: ["v1"], resources: ["widgets", "widgets/status", "unknown"] },
    { apiGroups: ["*"], apiVersions: ["v1"], resources: ["pods"] },
  ];
  const validations = [
    { expression: "object.spec.size > int(params.data['max']) && object.metadata.name != ''" },
    { expression: "object.spec.weight > 1 || params.dat == ''" },
  ];
  const paramKind = { apiVersion: "v1", kind: "ConfigMap" };
  expect(await statusOf("POST", policy(rules, validations, { paramKind }))).toMatchObject({
    typeChecking: {
      expressionWarnings: [
        {
          fieldRef: "spec.validations[1].expression",
          warning: expect.stringMatching(/^example\.com\/v1, Kind=Widget: ERROR: <input>:1:12: undefined field 'weight'/),
        },
      ],
    },
  });
});

it("checks a policy again when it changes, and removes warnings that no longer apply", async () => {
  await statusOf("POST", policy([deployments], [{ expression: "object.nope == 1" }]));
  const status = await statusOf("PUT", policy([deployments], [{ expression: "object.spec.replicas > 1" }]));
  expect(status).toEqual({ observedGeneration: 2, typeChecking: {} });
});
