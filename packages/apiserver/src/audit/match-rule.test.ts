import { expect, it } from "vitest";
import { requestInfo } from "../endpoints/request-info.ts";
import { auditSettings } from "./match-rule.ts";
import { readAuditPolicy } from "./read-policy.ts";

const user = { username: "alice", groups: ["dev", "system:authenticated"] };

function levelOf(rule: object, path: string, sender: typeof user | null = user): string {
  const policy = readAuditPolicy({ apiVersion: "audit.k8s.io/v1", kind: "Policy", rules: [{ level: "Metadata", ...rule }] });
  return auditSettings(policy, sender ?? undefined, requestInfo({ method: "GET", path })).level;
}

const pod = "/api/v1/namespaces/a/pods/p";

it.each([
  [{}, pod],
  [{ users: ["alice"] }, pod],
  [{ userGroups: ["ops", "dev"] }, pod],
  [{ verbs: ["get"] }, pod],
  [{ namespaces: ["a"] }, pod],
  [{ namespaces: [""] }, "/api/v1/nodes/n"],
  [{ resources: [{ group: "" }] }, pod],
  [{ resources: [{ group: "*", resources: ["pods"] }] }, pod],
  [{ resources: [{ group: "", resources: ["pods"], resourceNames: ["p"] }] }, pod],
  [{ resources: [{ group: "", resources: ["pods/log"] }] }, `${pod}/log`],
  [{ resources: [{ group: "", resources: ["pods/*"] }] }, `${pod}/log`],
  [{ resources: [{ group: "", resources: ["*/log"] }] }, `${pod}/log`],
  [{ resources: [{ group: "", resources: ["*"] }] }, `${pod}/log`],
  [{ nonResourceURLs: ["/healthz*"] }, "/healthz/ping"],
  [{ nonResourceURLs: ["*"] }, "/version"],
])("matches a rule %j", (rule, path) => {
  expect(levelOf(rule, path)).toBe("Metadata");
});

it.each([
  [{ users: ["bob"] }, pod],
  [{ userGroups: ["ops"] }, pod],
  [{ verbs: ["list"] }, pod],
  [{ namespaces: ["b"] }, pod],
  [{ resources: [{ group: "apps" }] }, pod],
  [{ resources: [{ group: "", resources: ["pods"] }] }, `${pod}/log`],
  [{ resources: [{ group: "", resources: ["pods/log"] }] }, pod],
  [{ resources: [{ group: "", resources: ["pods"], resourceNames: ["q"] }] }, pod],
  [{ resources: [{ group: "" }] }, "/healthz"],
  [{ nonResourceURLs: ["*"] }, pod],
  [{ nonResourceURLs: ["/healthz"] }, "/healthz/ping"],
])("does not match a rule %j", (rule, path) => {
  expect(levelOf(rule, path)).toBe("None");
});

it("does not match rules for users if authentication failed", () => {
  expect(levelOf({ users: ["alice"] }, pod, null)).toBe("None");
  expect(levelOf({}, pod, null)).toBe("Metadata");
});

it("uses the first rule that matches, and omits the stages of the rule and of the policy", () => {
  const policy = readAuditPolicy({
    apiVersion: "audit.k8s.io/v1",
    kind: "Policy",
    omitStages: ["Panic"],
    omitManagedFields: true,
    rules: [
      { level: "None", verbs: ["list"] },
      { level: "Request", omitStages: ["RequestReceived"], omitManagedFields: false },
      { level: "RequestResponse" },
    ],
  });
  const settings = auditSettings(policy, user, requestInfo({ method: "GET", path: pod }));
  expect(settings).toEqual({ level: "Request", omitStages: new Set(["Panic", "RequestReceived"]), omitManagedFields: false });
});
