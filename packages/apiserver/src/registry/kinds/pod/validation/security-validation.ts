import {
  duplicateCause,
  invalidCause,
  notSupportedCause,
  requiredCause,
  type StatusCause,
} from "@keelson/api-machinery/validation";
import * as check from "../../../field-checks.ts";
import { listAt, mapAt, textAt, valueAt } from "../../../object-fields.ts";
import { localPathCauses } from "./local-path.ts";
import { type Causes, eachItem } from "../../../causes.ts";

/** Names of sysctls, separated by dots or slashes. */
const sysctlRule = "^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$";
const sysctlName = new RegExp(sysctlRule);
const maxSysctlLength = 253;
/** Sysctls of the IPC namespace. */
const ipcSysctl = /^(?:kernel\.(?:sem|shm(?:all|max|mni|_rmid_forced)?|msg(?:max|mnb|mni)?)$|fs\.mqueue\.)/;

/** Validates the PodSecurityContext of a PodSpec. */
export function* podSecurityCauses(spec: unknown, path: string): Causes {
  const context = valueAt(spec, "securityContext");
  yield* eachItem(["fsGroup", "runAsUser", "runAsGroup"], (field) =>
    check.accountId(`${path}.${field}`, valueAt(context, field)),
  );
  for (const [index, group] of listAt(context, "supplementalGroups").entries()) {
    yield;
    yield* check.accountId(`${path}.supplementalGroups[${index}]`, group);
  }
  if (valueAt(spec, "shareProcessNamespace") === true && valueAt(spec, "hostPID") === true) {
    const detail = "ShareProcessNamespace and HostPID cannot both be enabled";
    yield invalidCause(`${path}.shareProcessNamespace`, true, detail);
  }
  const changePolicies = ["Always", "OnRootMismatch"];
  const groupsPolicies = ["Merge", "Strict"];
  yield* sysctlCauses(spec, `${path}.sysctls`);
  yield* check.oneOf(`${path}.fsGroupChangePolicy`, valueAt(context, "fsGroupChangePolicy"), changePolicies);
  yield* seccompCauses(valueAt(context, "seccompProfile"), `${path}.seccompProfile`);
  yield* appArmorCauses(valueAt(context, "appArmorProfile"), `${path}.appArmorProfile`);
  yield* check.oneOf(`${path}.supplementalGroupsPolicy`, valueAt(context, "supplementalGroupsPolicy"), groupsPolicies);
  yield* check.oneOf(`${path}.seLinuxChangePolicy`, valueAt(context, "seLinuxChangePolicy"), ["Recursive"]);
}

/** Validates the SecurityContext of a container. */
export function* containerSecurityCauses(context: unknown, path: string): Causes {
  yield* eachItem(["runAsUser", "runAsGroup"], (field) => check.accountId(`${path}.${field}`, valueAt(context, field)));
  yield* check.oneOf(`${path}.procMount`, valueAt(context, "procMount"), ["Default", "Unmasked"]);
  yield* seccompCauses(valueAt(context, "seccompProfile"), `${path}.seccompProfile`);
  if (valueAt(context, "allowPrivilegeEscalation") === false) {
    const detail = "cannot set `allowPrivilegeEscalation` to false and ";
    if (valueAt(context, "privileged") === true) {
      yield invalidCause(path, mapAt(context), `${detail}\`privileged\` to true`);
    }
    for (const capability of listAt(context, "capabilities", "add")) {
      yield;
      if (capability !== "CAP_SYS_ADMIN") continue;
      yield invalidCause(path, mapAt(context), `${detail}\`capabilities.Add\` CAP_SYS_ADMIN`);
    }
  }
  yield* appArmorCauses(valueAt(context, "appArmorProfile"), `${path}.appArmorProfile`);
}

/** The field that shares the namespace of a sysctl with the host; undefined if it is not shared. */
function hostNamespaceOf(spec: unknown, sysctl: string): string | undefined {
  if (valueAt(spec, "hostNetwork") === true && sysctl.startsWith("net.")) return "hostNetwork";
  return valueAt(spec, "hostIPC") === true && ipcSysctl.test(sysctl) ? "hostIPC" : undefined;
}

function* sysctlCauses(spec: unknown, path: string): Causes {
  const seen = new Set<string>();
  for (const [index, sysctl] of listAt(spec, "securityContext", "sysctls").entries()) {
    yield;
    const field = `${path}[${index}].name`;
    const name = textAt(sysctl, "name");
    if (name === "") yield requiredCause(field);
    else if (name.length > maxSysctlLength || !sysctlName.test(name)) {
      yield invalidCause(field, name, `must have at most ${maxSysctlLength} characters and match regex ${sysctlRule}`);
    } else if (seen.has(name)) yield duplicateCause(field, name);
    seen.add(name);
    const host = hostNamespaceOf(spec, name.replaceAll("/", "."));
    if (host !== undefined) yield invalidCause(field, name, `may not be specified when '${host}' is true`);
  }
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
  /** Rejects a profile of the node alongside another type. */
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
