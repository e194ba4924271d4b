import { listAt, textAt, valueAt } from "../../registry/object-fields.ts";
import {
  badSetters,
  containersOf,
  describeContainers,
  forbiddenCapabilities,
  hasUserNamespace,
  isForbiddenSeccomp,
  namesOf,
  quoted,
  seccompSince,
  securityAt,
  sorted,
  type PodCheck,
} from "./pod-facts.ts";

const appArmorProfile: PodCheck = {
  id: "appArmorProfile",
  check(spec) {
    const allowed = ["RuntimeDefault", "Localhost"];
    const isBad = (value: unknown): boolean => typeof value === "string" && !allowed.includes(value);
    const { setters, values } = badSetters(spec, ["appArmorProfile", "type"], isBad);
    if (setters.length === 0) return undefined;
    return {
      reason: values.length === 1 ? "forbidden AppArmor profile" : "forbidden AppArmor profiles",
      detail: `${setters.join(" and ")} must not set AppArmor profile type to ${quoted(values)}`,
    };
  },
};

const defaultCapabilities: ReadonlySet<string> = new Set(
  (
    "AUDIT_WRITE CHOWN DAC_OVERRIDE FOWNER FSETID KILL MKNOD NET_BIND_SERVICE SETFCAP SETGID SETPCAP SETUID " + "SYS_CHROOT"
  ).split(" "),
);

const baselineCapabilities: PodCheck = {
  id: "capabilities_baseline",
  check(spec) {
    const detail = forbiddenCapabilities(spec, defaultCapabilities);
    return detail === undefined ? undefined : { reason: "non-default capabilities", detail };
  },
};

const hostNamespaces: PodCheck = {
  id: "hostNamespaces",
  check(spec) {
    const set = ["hostNetwork", "hostPID", "hostIPC"].filter((field) => valueAt(spec, field) === true);
    if (set.length === 0) return undefined;
    return { reason: "host namespaces", detail: set.map((field) => `${field}=true`).join(", ") };
  },
};

const hostPathVolumes: PodCheck = {
  id: "hostPathVolumes",
  check(spec) {
    const volumes = listAt(spec, "volumes").filter((volume) => valueAt(volume, "hostPath") !== undefined);
    if (volumes.length === 0) return undefined;
    const noun = volumes.length === 1 ? "volume" : "volumes";
    return { reason: "hostPath volumes", detail: `${noun} ${quoted(namesOf(volumes))}` };
  },
};

const hostPorts: PodCheck = {
  id: "hostPorts",
  check(spec) {
    const ports: string[] = [];
    const bad = containersOf(spec).filter((container) => {
      const own = listAt(container, "ports")
        .map((port) => valueAt(port, "hostPort"))
        .filter((port) => typeof port === "number" && port !== 0);
      ports.push(...own.map(String));
      return own.length > 0;
    });
    if (bad.length === 0) return undefined;
    const all = sorted(ports);
    const verb = bad.length === 1 ? "uses" : "use";
    const noun = all.length === 1 ? "hostPort" : "hostPorts";
    return { reason: "hostPort", detail: `${describeContainers(bad)} ${verb} ${noun} ${all.join(", ")}` };
  },
};

/** Hosts of probes and lifecycle hooks that stay within the Pod. */
const localHosts = ["", "127.0.0.1", "::1"];

const probeHosts: PodCheck = {
  id: "hostProbesAndHostLifecycle",
  since: 34,
  check(spec) {
    const hosts: string[] = [];
    const bad = containersOf(spec).filter((container) => {
      const handlers = [
        ...["livenessProbe", "readinessProbe", "startupProbe"].map((probe) => valueAt(container, probe)),
        ...["postStart", "preStop"].map((hook) => valueAt(container, "lifecycle", hook)),
      ];
      const own = handlers
        .flatMap((handler) => [textAt(handler, "httpGet", "host"), textAt(handler, "tcpSocket", "host")])
        .filter((host) => !localHosts.includes(host));
      hosts.push(...own);
      return own.length > 0;
    });
    if (bad.length === 0) return undefined;
    const all = sorted(hosts);
    const verb = bad.length === 1 ? "uses" : "use";
    const noun = all.length === 1 ? "probe or lifecycle host" : "probe or lifecycle hosts";
    return { reason: "probe or lifecycle host", detail: `${describeContainers(bad)} ${verb} ${noun} ${quoted(all)}` };
  },
};

const privileged: PodCheck = {
  id: "privileged",
  check(spec) {
    const bad = containersOf(spec).filter((container) => securityAt(container, "privileged") === true);
    if (bad.length === 0) return undefined;
    return { reason: "privileged", detail: `${describeContainers(bad)} must not set securityContext.privileged=true` };
  },
};

const procMount: PodCheck = {
  id: "procMount",
  check(spec, minor) {
    if (hasUserNamespace(spec, minor)) return undefined;
    const values: string[] = [];
    const bad = containersOf(spec).filter((container) => {
      const value = securityAt(container, "procMount");
      if (typeof value !== "string" || value === "Default") return false;
      values.push(value);
      return true;
    });
    if (bad.length === 0) return undefined;
    const detail = `${describeContainers(bad)} must not set securityContext.procMount to ${quoted(sorted(values))}`;
    return { reason: "procMount", detail };
  },
};

const seLinuxOptions: PodCheck = {
  id: "seLinuxOptions",
  check(spec, minor) {
    const allowed = ["", "container_t", "container_init_t", "container_kvm_t", ...(minor >= 31 ? ["container_engine_t"] : [])];
    const types: string[] = [];
    let isUserSet = false;
    let isRoleSet = false;
    const isBad = (subject: unknown): boolean => {
      const options = securityAt(subject, "seLinuxOptions");
      const type = textAt(options, "type");
      if (!allowed.includes(type)) types.push(type);
      if (textAt(options, "user") !== "") isUserSet = true;
      if (textAt(options, "role") !== "") isRoleSet = true;
      return !allowed.includes(type) || textAt(options, "user") !== "" || textAt(options, "role") !== "";
    };
    const setters = isBad(spec) ? ["pod"] : [];
    const bad = containersOf(spec).filter(isBad);
    if (bad.length > 0) setters.push(describeContainers(bad));
    if (setters.length === 0) return undefined;
    const all = sorted(types);
    const details = [
      ...(all.length > 0 ? [`${all.length === 1 ? "type" : "types"} ${quoted(all)}`] : []),
      ...(isUserSet ? ["user may not be set"] : []),
      ...(isRoleSet ? ["role may not be set"] : []),
    ];
    const detail = `${setters.join(" and ")} set forbidden securityContext.seLinuxOptions: ${details.join("; ")}`;
    return { reason: "seLinuxOptions", detail };
  },
};

const baselineSeccomp: PodCheck = {
  id: "seccompProfile_baseline",
  since: seccompSince,
  check(spec) {
    const { setters, values } = badSetters(spec, ["seccompProfile", "type"], isForbiddenSeccomp);
    if (setters.length === 0) return undefined;
    const detail = `${setters.join(" and ")} must not set securityContext.seccompProfile.type to ${quoted(values)}`;
    return { reason: "seccompProfile", detail };
  },
};

/** Sysctls that a Pod may set, and the minor version since which it may. */
const allowedSysctls: Readonly<Record<string, number>> = {
  "kernel.shm_rmid_forced": 0,
  "net.ipv4.ip_local_port_range": 0,
  "net.ipv4.tcp_syncookies": 0,
  "net.ipv4.ping_group_range": 0,
  "net.ipv4.ip_unprivileged_port_start": 0,
  "net.ipv4.ip_local_reserved_ports": 27,
  "net.ipv4.tcp_keepalive_time": 29,
  "net.ipv4.tcp_fin_timeout": 29,
  "net.ipv4.tcp_keepalive_intvl": 29,
  "net.ipv4.tcp_keepalive_probes": 29,
  "net.ipv4.tcp_rmem": 32,
  "net.ipv4.tcp_wmem": 32,
};

const sysctls: PodCheck = {
  id: "sysctls",
  check(spec, minor) {
    const forbidden = listAt(spec, "securityContext", "sysctls")
      .map((sysctl) => textAt(sysctl, "name"))
      .filter((name) => !Object.hasOwn(allowedSysctls, name) || (allowedSysctls[name] ?? 0) > minor);
    return forbidden.length === 0 ? undefined : { reason: "forbidden sysctls", detail: forbidden.join(", ") };
  },
};

const windowsHostProcess: PodCheck = {
  id: "windowsHostProcess",
  check(spec) {
    const isSet = (subject: unknown): boolean => securityAt(subject, "windowsOptions", "hostProcess") === true;
    const bad = containersOf(spec).filter(isSet);
    const setters = [...(isSet(spec) ? ["pod"] : []), ...(bad.length > 0 ? [describeContainers(bad)] : [])];
    if (setters.length === 0) return undefined;
    const detail = `${setters.join(" and ")} must not set securityContext.windowsOptions.hostProcess=true`;
    return { reason: "hostProcess", detail };
  },
};

/** Checks of the level `baseline`, in the order of messages. */
export const baselineChecks: readonly PodCheck[] = [
  appArmorProfile,
  baselineCapabilities,
  hostNamespaces,
  hostPathVolumes,
  hostPorts,
  probeHosts,
  privileged,
  procMount,
  seLinuxOptions,
  baselineSeccomp,
  sysctls,
  windowsHostProcess,
];
