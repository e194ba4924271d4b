import type { KubernetesObject } from "@keelson/api-machinery";
import { afterEach, beforeEach, expect, it } from "vitest";
import type { Outcome } from "../../endpoints/outcome.ts";
import { systemUser } from "../../system-user.ts";
import { startTestEnvironment, type TestEnvironment } from "../../testing/test-environment.ts";

let environment: TestEnvironment;
beforeEach(async () => {
  environment = await startTestEnvironment();
});
afterEach(() => environment.stop());

const policies = "/apis/admissionregistration.k8s.io/v1";
const configMaps = "/api/v1/namespaces/default/configmaps";

const send = (method: "POST" | "DELETE", path: string, body?: unknown): Promise<Outcome> =>
  environment.handle({ method, path, user: systemUser, ...(body === undefined ? {} : { body }) });

async function create(path: string, kind: string, name: string, rest: object): Promise<Outcome> {
  const apiVersion = kind === "ConfigMap" || kind === "Event" ? "v1" : "admissionregistration.k8s.io/v1";
  const object: KubernetesObject = { apiVersion, kind, metadata: { name }, ...rest };
  return send("POST", path, object);
}

async function install(spec: object, binding: object): Promise<void> {
  const rule = { apiGroups: [""], apiVersions: ["v1"], operations: ["*"], resources: ["configmaps"] };
  const full = { matchConstraints: { resourceRules: [rule] }, ...spec };
  const outcomes = [
    await create(`${policies}/validatingadmissionpolicies`, "ValidatingAdmissionPolicy", "p", { spec: full }),
    await create(`${policies}/validatingadmissionpolicybindings`, "ValidatingAdmissionPolicyBinding", "b", {
      spec: { policyName: "p", ...binding },
    }),
  ];
  for (const outcome of outcomes) expect(outcome.kind).toBe("object");
}

it("denies creates and deletes that a policy's expressions reject", async () => {
  const validations = [
    {
      expression: "request.operation != 'CREATE' || object.data.size() < 2",
      messageExpression: "'has ' + string(object.data.size())",
    },
    { expression: "request.operation != 'DELETE' || !('keep' in oldObject.data)", message: "kept", reason: "Forbidden" },
  ];
  await install({ validations }, { validationActions: ["Deny"] });
  expect(await create(configMaps, "ConfigMap", "big", { data: { a: "", b: "" } })).toMatchObject({
    status: {
      code: 422,
      message: `configmaps "big" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: has 2`,
    },
  });
  expect((await create(configMaps, "ConfigMap", "kept", { data: { keep: "" } })).kind).toBe("object");
  expect(await send("DELETE", `${configMaps}/kept`)).toMatchObject({ status: { code: 403, reason: "Forbidden" } });
});

it("reads parameters, and follows the failure policy if an expression fails", async () => {
  await install(
    {
      paramKind: { apiVersion: "v1", kind: "ConfigMap" },
      failurePolicy: "Ignore",
      matchConditions: [{ name: "not-params", expression: "object.metadata.name != 'limits'" }],
      validations: [{ expression: "size(object.data) <= int(params.data.max)" }],
    },
    { validationActions: ["Deny"], paramRef: { name: "limits", parameterNotFoundAction: "Allow" } },
  );
  expect((await create(configMaps, "ConfigMap", "a", { data: { a: "", b: "" } })).kind).toBe("object");
  expect((await create(configMaps, "ConfigMap", "limits", { data: { max: "1" } })).kind).toBe("object");
  expect(await create(configMaps, "ConfigMap", "b", { data: { a: "", b: "" } })).toMatchObject({ status: { code: 422 } });
  // Without data, the expression fails, which is ignored.
  expect((await create(configMaps, "ConfigMap", "c", {})).kind).toBe("object");
});

it("evaluates objects in the version of the matched rule, and asks for the permissions of the user", async () => {
  const rule = { apiGroups: ["events.k8s.io"], apiVersions: ["v1"], operations: ["CREATE"], resources: ["events"] };
  const validations = [
    {
      expression:
        "object.note != 'forbidden' && authorizer.group('').resource('events').namespace('default').check('create').allowed()",
      messageExpression: "request.kind.group + ' ' + request.requestKind.version + ': ' + object.note",
    },
  ];
  await install({ matchConstraints: { resourceRules: [rule] }, validations }, { validationActions: ["Deny"] });
  const event = (name: string, message: string): Promise<Outcome> =>
    create("/api/v1/namespaces/default/events", "Event", name, { involvedObject: { namespace: "default" }, message });
  expect((await event("a", "allowed")).kind).toBe("object");
  expect(await event("b", "forbidden")).toMatchObject({
    status: { message: expect.stringContaining("denied request: events.k8s.io v1: forbidden") },
  });
});
