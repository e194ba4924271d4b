import { resolve } from "node:path";
import { expect, it } from "vitest";
import { readAuditFlags } from "./audit-flags.ts";

const limits = { "audit-log-maxsize": "100", "audit-log-maxbackup": "3", "audit-log-maxage": "0" };

it("has no audit log by default", () => {
  expect(readAuditFlags(limits)).toBeUndefined();
});

it("reads the policy, the file and its rotation", () => {
  expect(readAuditFlags({ ...limits, "audit-policy-file": "p.yaml", "audit-log-path": "a/audit.log" })).toEqual({
    policyFile: resolve("p.yaml"),
    log: { path: resolve("a/audit.log"), maxSize: 100, maxBackups: 3, maxAge: 0 },
  });
});

it.each([
  [{ "audit-policy-file": "p.yaml" }, "--audit-policy-file: requires --audit-log-path"],
  [{ "audit-log-path": "audit.log" }, "--audit-log-path: requires --audit-policy-file"],
  [
    { "audit-policy-file": "p.yaml", "audit-log-path": "-" },
    "--audit-log-path: must be a file; standard output is not supported",
  ],
])("rejects %j", (flags, message) => {
  expect(() => readAuditFlags({ ...limits, ...flags })).toThrow(message);
});
