import type { KubernetesObject } from "@keelson/api-machinery";
import { afterEach, beforeEach, expect, it } from "vitest";
import { systemUser } from "../../system-user.ts";
import { startTestEnvironment, type TestEnvironment } from "../../testing/test-environment.ts";
import { CompiledPolicies } from "./compiled-policies.ts";

let environment: TestEnvironment;
beforeEach(async () => {
  environment = await startTestEnvironment();
});
afterEach(() => environment.stop());

const path = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";

const policy = (expression: string): KubernetesObject & { readonly spec: object } => ({
  apiVersion: "admissionregistration.k8s.io/v1",
  kind: "ValidatingAdmissionPolicy",
  metadata: { name: "p" },
  spec: {
    matchConstraints: { resourceRules: [{ apiGroups: [""], apiVersions: ["v1"], operations: ["*"], resources: ["pods"] }] },
    validations: [{ expression }],
  },
});

it("compiles a policy once, and again after a change", async () => {
  const compiled: unknown[] = [];
  const policies = new CompiledPolicies(environment.store, "validatingadmissionpolicies", (object) => compiled.push(object));
  expect(policies.get("p")).toBeUndefined();
  await environment.handle({ method: "POST", path, user: systemUser, body: policy("true") });
  const programOf = (): number | undefined => {
    const stored = policies.get("p");
    return stored && policies.programOf(stored);
  };
  expect([programOf(), programOf()]).toEqual([1, 1]);
  const changed = { spec: policy("false").spec };
  const headers = { "content-type": "application/merge-patch+json" };
  await environment.handle({ method: "PATCH", path: `${path}/p`, user: systemUser, body: changed, headers });
  expect([programOf(), programOf(), policies.size]).toEqual([2, 2, 1]);
  policies.close();
});

it("drops deleted policies", async () => {
  const policies = new CompiledPolicies(environment.store, "validatingadmissionpolicies", () => "program");
  await environment.handle({ method: "POST", path, user: systemUser, body: policy("true") });
  const stored = policies.get("p");
  if (stored !== undefined) policies.programOf(stored);
  expect(policies.size).toBe(1);
  await environment.handle({ method: "DELETE", path: `${path}/p`, user: systemUser });
  expect(policies.size).toBe(0);
  policies.close();
});
