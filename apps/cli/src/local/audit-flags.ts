import { resolve } from "node:path";
import type { AuditOptions } from "@keelson/apiserver";
import { countFlag, type FlagDefinition, type FlagValues, UsageError } from "@keelson/operator/flags";

const maxSizeFlag = countFlag({
  name: "audit-log-maxsize",
  value: "MIB",
  description: "size in MiB at which the audit log is rotated",
  default: "100",
  min: 0,
});
const maxBackupFlag = countFlag({
  name: "audit-log-maxbackup",
  value: "N",
  description: "number of rotated audit logs to keep, 0 for all",
  default: "0",
  min: 0,
});
const maxAgeFlag = countFlag({
  name: "audit-log-maxage",
  value: "DAYS",
  description: "age in days at which rotated audit logs are deleted, 0 for never",
  default: "0",
  min: 0,
});

/** The flags of the API server's audit log, which are those of kube-apiserver. */
export const auditFlags: readonly FlagDefinition[] = [
  {
    name: "audit-policy-file",
    value: "FILE",
    description: "audit policy (audit.k8s.io/v1) that decides which API requests are recorded, and how much of them",
  },
  { name: "audit-log-path", value: "FILE", description: "file to append audit events to, as JSON lines" },
  maxSizeFlag,
  maxBackupFlag,
  maxAgeFlag,
];

/** Reads the flags of the audit log; undefined if there is none. Throws a `UsageError` if only one of policy and path is set. */
export function readAuditFlags(flags: FlagValues): AuditOptions | undefined {
  const { "audit-policy-file": policyFile, "audit-log-path": path } = flags;
  if (policyFile === undefined && path === undefined) return undefined;
  if (path === undefined) throw new UsageError("--audit-policy-file: requires --audit-log-path");
  if (policyFile === undefined) throw new UsageError("--audit-log-path: requires --audit-policy-file");
  if (path === "-") throw new UsageError("--audit-log-path: must be a file; standard output is not supported");
  return {
    policyFile: resolve(String(policyFile)),
    log: {
      path: resolve(String(path)),
      maxSize: maxSizeFlag.read(flags),
      maxBackups: maxBackupFlag.read(flags),
      maxAge: maxAgeFlag.read(flags),
    },
  };
}
