import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it } from "vitest";
import { parse } from "yaml";
import { readAuditPolicy, readAuditPolicyFile } from "./read-policy.ts";

const head = { apiVersion: "audit.k8s.io/v1", kind: "Policy" };
const faultOf = (policy: object): string => {
  try {
    readAuditPolicy(policy);
  } catch (error) {
    return error instanceof Error ? error.message : "";
  }
  return "valid";
};

it("reads every field of a policy", () => {
  const rule = {
    level: "RequestResponse",
    users: ["system:kube-proxy"],
    userGroups: ["system:nodes"],
    verbs: ["watch"],
    resources: [{ group: "", resources: ["pods/log", "*/scale"], resourceNames: ["a"] }],
    namespaces: [""],
    omitStages: ["RequestReceived"],
    omitManagedFields: false,
  };
  expect(readAuditPolicy({ ...head, rules: [rule], omitStages: ["Panic"], omitManagedFields: true })).toEqual({
    rules: [{ ...rule, nonResourceURLs: [] }],
    omitStages: ["Panic"],
    omitManagedFields: true,
  });
});

it.each([
  [{ rules: [{ level: "Everything" }] }, /^rules\[0\]\.level: Unsupported value: "Everything": supported values: "None"/],
  [{ rules: [{ verbs: ["get"] }] }, /^rules\[0\]\.level: Required value$/],
  [{ rules: [] }, /^rules: Required value: must have at least one rule$/],
  [{}, /^rules: Required value/],
  [{ rules: [{ level: "None", namespace: ["a"] }] }, /^rules\[0\]\.namespace: unknown field; known fields are level/],
  [{ rules: [{ level: "None", users: "me" }] }, /^rules\[0\]\.users: Invalid value: "me": must be a list$/],
  [{ rules: [{ level: "None", users: [1] }] }, /^rules\[0\]\.users\[0\]: Invalid value: 1: must be a string$/],
  [
    { rules: [{ level: "None", omitStages: ["Later"] }] },
    /^rules\[0\]\.omitStages\[0\]: Invalid value: "Later": allowed stages are RequestReceived,/,
  ],
  [
    { rules: [{ level: "None", nonResourceURLs: ["healthz", "/a*b"] }] },
    /must begin with a '\/' character.*nonResourceURLs\[1\].*must be the final character/,
  ],
  [
    { rules: [{ level: "None", nonResourceURLs: ["/healthz"], namespaces: ["a"] }] },
    /nonResourceURLs: .*rules cannot apply to both regular resources and non-resource URLs/,
  ],
  [
    { rules: [{ level: "None", resources: [{ group: "apps/v1" }] }] },
    /^rules\[0\]\.resources\[0\]\.group: Invalid value: "apps\/v1"/,
  ],
  [
    { rules: [{ level: "None", resources: [{ resourceNames: ["a"] }] }] },
    /resources\[0\]\.resourceNames: .*using resourceNames requires at least one resource/,
  ],
])("rejects %j and names the field", (policy, message) => {
  expect(faultOf({ ...head, ...policy })).toMatch(message);
});

it("rejects other versions and kinds", () => {
  expect(faultOf({ apiVersion: "audit.k8s.io/v1beta1", kind: "Policy", rules: [{ level: "None" }] })).toBe(
    'apiVersion: Unsupported value: "audit.k8s.io/v1beta1": supported values: "audit.k8s.io/v1"',
  );
});

it("names the file in errors", async () => {
  const directory = await mkdtemp(join(tmpdir(), "keelson-audit-"));
  const path = join(directory, "policy.yaml");
  await expect(readAuditPolicyFile(path)).rejects.toThrow(/could not read the audit policy .*policy.yaml: ENOENT/);
  await writeFile(path, "rules: [");
  await expect(readAuditPolicyFile(path)).rejects.toThrow(/policy.yaml is not valid YAML/);
  await writeFile(path, "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules:\n- level: Sometimes\n");
  await expect(readAuditPolicyFile(path)).rejects.toThrow(/policy.yaml: rules\[0\]\.level: Unsupported value/);
  await rm(directory, { recursive: true });
});

it("accepts the policy of the reference page", async () => {
  const page = await readFile(new URL("../../../../docs/reference/audit.md", import.meta.url), "utf8");
  const text = /```yaml\n([^]*?)```/.exec(page)?.[1] ?? "";
  expect(readAuditPolicy(parse(text)).rules.map(({ level }) => level)).toEqual([
    "None",
    "Metadata",
    "RequestResponse",
    "Metadata",
  ]);
});
