import {
  duplicateCause,
  invalidCause,
  notSupportedCause,
  requiredCause,
  type StatusCause,
} from "@keelson/api-machinery/validation";
import * as check from "../../field-checks.ts";
import { listAt, mapAt, textAt, valueAt } from "../../object-fields.ts";
import { localPathCauses } from "./local-path.ts";

/** Names of sysctls, separated by dots or slashes. */
const sysctlRule = "^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$";
const sysctlName = new RegExp(sysctlRule);
const maxSysctlLength = 253;
/** Sysctls of the IPC namespace. */
const ipcSysctl = /^(?:kernel\.(?:sem|shm(?:all|max|mni|_rmid_forced)?|msg(?:max|mnb|mni)?)$|fs\.mqueue\.)/;

/** Validates the PodSecurityContext of a PodSpec. */
export function podSecurityCauses(spec: unknown, path: string): StatusCause[] {
  const context = valueAt(spec, "securityContext");
  const causes = ["fsGroup", "runAsUser", "runAsGroup"].flatMap((field) =>
    check.accountId(`${path}.${field}`, valueAt(context, field)),
  );
  for (const [index, group] of listAt(context, "supplementalGroups").entries()) {
    causes.push(...check.accountId(`${path}.supplementalGroups[${index}]`, group));
  }
  if (valueAt(spec, "shareProcessNamespace") === true && valueAt(spec, "hostPID") === true) {
    const detail = "ShareProcessNamespace and HostPID cannot both be enabled";
    causes.push(invalidCause(`${path}.shareProcessNamespace`, true, detail));
  }
  const changePolicies = ["Always", "OnRootMismatch"];
  const groupsPolicies = ["Merge", "Strict"];
  return [
    ...causes,
    ...sysctlCauses(spec, `${path}.sysctls`),
    ...check.oneOf(`${path}.fsGroupChangePolicy`, valueAt(context, "fsGroupChangePolicy"), changePolicies),
    ...seccompCauses(valueAt(context, "seccompProfile"), `${path}.seccompProfile`),
    ...appArmorCauses(valueAt(context, "appArmorProfile"), `${path}.appArmorProfile`),
    ...check.oneOf(`${path}.supplementalGroupsPolicy`, valueAt(context, "supplementalGroupsPolicy"), groupsPolicies),
    ...check.oneOf(`${path}.seLinuxChangePolicy`, valueAt(context, "seLinuxChangePolicy"), ["MountOption", "Recursive"]),
  ];
}

/** Validates the SecurityContext of a container. */
export function containerSecurityCauses(context: unknown, path: string): StatusCause[] {
  const causes = ["runAsUser", "runAsGroup"].flatMap((field) => check.accountId(`${path}.${field}`, valueAt(context, field)));
  causes.push(...check.oneOf(`${path}.procMount`, valueAt(context, "procMount"), ["Default", "Unmasked"]));
  causes.push(...seccompCauses(valueAt(context, "seccompProfile"), `${path}.seccompProfile`));
  if (valueAt(context, "allowPrivilegeEscalation") === false) {
    const detail = "cannot set `allowPrivilegeEscalation` to false and ";
    if (valueAt(context, "privileged") === true) {
      causes.push(invalidCause(path, mapAt(context), `${detail}\`privileged\` to true`));
    }
    for (const capability of listAt(context, "capabilities", "add")) {
      if (capability !== "CAP_SYS_ADMIN") continue;
      causes.push(invalidCause(path, mapAt(context), `${detail}\`capabilities.Add\` CAP_SYS_ADMIN`));
    }
  }
  return [...causes, ...appArmorCauses(valueAt(context, "appArmorProfile"), `${path}.appArmorProfile`)];
}

/** The field that shares the namespace of a sysctl with the host; undefined if it is not shared. */
function hostNamespaceOf(spec: unknown, sysctl: string): string | undefined {
  if (valueAt(spec, "hostNetwork") === true && sysctl.startsWith("net.")) return "hostNetwork";
  return valueAt(spec, "hostIPC") === true && ipcSysctl.test(sysctl) ? "hostIPC" : undefined;
}

function sysctlCauses(spec: unknown, path: string): StatusCause[] {
  const causes: StatusCause[] = [];
  const seen = new Set<string>();
  for (const [index, sysctl] of listAt(spec, "securityContext", "sysctls").entries()) {
    const field = `${path}[${index}].name`;
    const name = textAt(sysctl, "name");
    if (name === "") causes.push(requiredCause(field));
    else if (name.length > maxSysctlLength || !sysctlName.test(name)) {
      causes.push(invalidCause(field, name, `must have at most ${maxSysctlLength} characters and match regex ${sysctlRule}`));
    } else if (seen.has(name)) causes.push(duplicateCause(field, name));
    seen.add(name);
    const host = hostNamespaceOf(spec, name.replaceAll("/", "."));
    if (host !== undefined) causes.push(invalidCause(field, name, `may not be specified when '${host}' is true`));
  }
  return causes;
}

function seccompCauses(profile: unknown, path: string): StatusCause[] {
  return profileCauses(profile, path, {
    missingType: "type is required when seccompProfile is set",
    supported: ["Localhost", "RuntimeDefault", "Unconfined"],
    missingProfile: "must be set when seccomp type is Localhost",
    profile: (field, name) => localPathCauses(field, name),
    // kube-apiserver prints its internal type.
    needless: (field, type, name) => [
      invalidCause(field, { Type: type, LocalhostProfile: name }, "can only be set when seccomp type is Localhost"),
    ],
  });
}

function appArmorCauses(profile: unknown, path: string): StatusCause[] {
  return profileCauses(profile, path, {
    missingType: "type is required when appArmorProfile is set",
    supported: ["Localhost", "RuntimeDefault", "Unconfined"],
    missingProfile: "must be set when AppArmor type is Localhost",
    profile: (field, name) => {
      const causes: StatusCause[] = [];
      if (name.trim() !== name) causes.push(invalidCause(field, name, "must not be padded with whitespace"));
      else if (name === "") causes.push(requiredCause(field, "must be set when AppArmor type is Localhost"));
      return causes;
    },
    needless: (field, type, name) =>
      ["RuntimeDefault", "Unconfined"].includes(type)
        ? [invalidCause(field, name, "can only be set when AppArmor type is Localhost")]
        : [],
  });
}

interface ProfileRule {
  readonly missingType: string;
  readonly supported: readonly string[];
  readonly missingProfile: string;
  readonly profile: (field: string, name: string) => StatusCause[];
  /** Rejects a profile of the node beside another type. */
  readonly needless: (field: string, type: string, name: unknown) => StatusCause[];
}

/** Validates a profile that is the runtime's own, one of the node, or none. */
function profileCauses(profile: unknown, path: string, rule: ProfileRule): StatusCause[] {
  if (profile === undefined) return [];
  const causes: StatusCause[] = [];
  const type = textAt(profile, "type");
  const local = valueAt(profile, "localhostProfile");
  const field = `${path}.localhostProfile`;
  if (type === "") causes.push(requiredCause(`${path}.type`, rule.missingType));
  else if (!rule.supported.includes(type)) causes.push(notSupportedCause(`${path}.type`, type, rule.supported));
  if (type !== "Localhost") {
    if (local !== undefined) causes.push(...rule.needless(field, type, local));
  } else if (typeof local !== "string") causes.push(requiredCause(field, rule.missingProfile));
  else causes.push(...rule.profile(field, local));
  return causes;
}
