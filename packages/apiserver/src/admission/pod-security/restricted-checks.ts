import { listAt, objectsAt } from "../../registry/object-fields.ts";
import {
  badSetters,
  containersOf,
  describeContainers,
  forbiddenCapabilities,
  hasUserNamespace,
  isForbiddenSeccomp,
  isWindows,
  namesOf,
  quoted,
  seccompSince,
  securityAt,
  sorted,
  type PodCheck,
} from "./pod-facts.ts";

const allowPrivilegeEscalation: PodCheck = {
  id: "allowPrivilegeEscalation",
  since: 8,
  check(spec, minor) {
    if (isWindows(spec, minor)) return undefined;
    const bad = containersOf(spec).filter((container) => securityAt(container, "allowPrivilegeEscalation") !== false);
    if (bad.length === 0) return undefined;
    return {
      reason: "allowPrivilegeEscalation != false",
      detail: `${describeContainers(bad)} must set securityContext.allowPrivilegeEscalation=false`,
    };
  },
};

const restrictedCapabilities: PodCheck = {
  id: "capabilities_restricted",
  replaces: ["capabilities_baseline"],
  since: 22,
  check(spec, minor) {
    if (isWindows(spec, minor)) return undefined;
    const undropped = containersOf(spec).filter(
      (container) => !listAt(container, "securityContext", "capabilities", "drop").includes("ALL"),
    );
    const details = [
      ...(undropped.length > 0 ? [`${describeContainers(undropped)} must set securityContext.capabilities.drop=["ALL"]`] : []),
      ...[forbiddenCapabilities(spec, new Set(["NET_BIND_SERVICE"])) ?? []].flat(),
    ];
    return details.length === 0 ? undefined : { reason: "unrestricted capabilities", detail: details.join("; ") };
  },
};

const allowedVolumes: ReadonlySet<string> = new Set(
  "configMap csi downwardAPI emptyDir ephemeral image persistentVolumeClaim projected secret".split(" "),
);

const restrictedVolumes: PodCheck = {
  id: "restrictedVolumes",
  replaces: ["hostPathVolumes"],
  check(spec) {
    const types: string[] = [];
    const bad = objectsAt(spec, "volumes").filter((volume) => {
      const forbidden = Object.keys(volume).filter((field) => field !== "name" && !allowedVolumes.has(field));
      types.push(...forbidden);
      return forbidden.length > 0;
    });
    if (bad.length === 0) return undefined;
    const all = sorted(types);
    const subject = bad.length === 1 ? "volume" : "volumes";
    const verb = bad.length === 1 ? "uses" : "use";
    const noun = all.length === 1 ? "restricted volume type" : "restricted volume types";
    return {
      reason: "restricted volume types",
      detail: `${subject} ${quoted(namesOf(bad))} ${verb} ${noun} ${quoted(all)}`,
    };
  },
};

const runAsNonRoot: PodCheck = {
  id: "runAsNonRoot",
  check(spec, minor) {
    if (hasUserNamespace(spec, minor)) return undefined;
    const containers = containersOf(spec);
    const { setters } = badSetters(spec, ["runAsNonRoot"], (value) => value === false);
    const reason = "runAsNonRoot != true";
    if (setters.length > 0) {
      return { reason, detail: `${setters.join(" and ")} must not set securityContext.runAsNonRoot=false` };
    }
    const isSet = securityAt(spec, "runAsNonRoot") === true;
    const bad = isSet ? [] : containers.filter((container) => securityAt(container, "runAsNonRoot") !== true);
    if (bad.length === 0) return undefined;
    return { reason, detail: `pod or ${describeContainers(bad)} must set securityContext.runAsNonRoot=true` };
  },
};

const runAsUser: PodCheck = {
  id: "runAsUser",
  since: 23,
  check(spec, minor) {
    if (hasUserNamespace(spec, minor)) return undefined;
    const { setters } = badSetters(spec, ["runAsUser"], (value) => value === 0);
    return setters.length === 0
      ? undefined
      : { reason: "runAsUser=0", detail: `${setters.join(" and ")} must not set runAsUser=0` };
  },
};

const restrictedSeccomp: PodCheck = {
  id: "seccompProfile_restricted",
  replaces: ["seccompProfile_baseline"],
  since: seccompSince,
  check(spec, minor) {
    if (isWindows(spec, minor)) return undefined;
    const { setters, values } = badSetters(spec, ["seccompProfile", "type"], isForbiddenSeccomp);
    const reason = "seccompProfile";
    if (setters.length > 0) {
      const detail = `${setters.join(" and ")} must not set securityContext.seccompProfile.type to ${quoted(values)}`;
      return { reason, detail };
    }
    const isSet = (subject: unknown): boolean => typeof securityAt(subject, "seccompProfile", "type") === "string";
    const bad = isSet(spec) ? [] : containersOf(spec).filter((container) => !isSet(container));
    if (bad.length === 0) return undefined;
    const required = 'must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost"';
    return { reason, detail: `pod or ${describeContainers(bad)} ${required}` };
  },
};

/** Additional checks of the level `restricted`. */
export const restrictedChecks: readonly PodCheck[] = [
  allowPrivilegeEscalation,
  restrictedCapabilities,
  restrictedVolumes,
  runAsNonRoot,
  runAsUser,
  restrictedSeccomp,
];
