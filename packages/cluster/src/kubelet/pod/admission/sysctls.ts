/** The namespace of the kernel that a parameter belongs to. */
export type KernelNamespace = "ipc" | "net";

/** Kernel parameters that concern only the Pod that sets them. As in the kubelet 1.35. */
const safe = [
  "kernel.shm_rmid_forced",
  "net.ipv4.ip_local_port_range",
  "net.ipv4.ip_local_reserved_ports",
  "net.ipv4.ip_unprivileged_port_start",
  "net.ipv4.ping_group_range",
  "net.ipv4.tcp_fin_timeout",
  "net.ipv4.tcp_keepalive_intvl",
  "net.ipv4.tcp_keepalive_probes",
  "net.ipv4.tcp_keepalive_time",
  "net.ipv4.tcp_rmem",
  "net.ipv4.tcp_syncookies",
  "net.ipv4.tcp_wmem",
];

/** Begins of the names of parameters that belong to the IPC namespace, alongside `kernel.sem`. */
const ipcPrefixes = ["kernel.shm", "kernel.msg", "fs.mqueue."];

/**
 * A parameter with dots between its parts. If its first separator is a slash, its slashes become dots and its dots slashes, as in `sysctl`:
 * `net/ipv4/conf/eth0.1/rp_filter` is `net.ipv4.conf.eth0/1.rp_filter`.
 */
function dotted(name: string): string {
  const separator = /[./]/.exec(name)?.[0];
  return separator === "/" ? name.replaceAll(/[./]/g, (each) => (each === "/" ? "." : "/")) : name;
}

/** The path of a parameter below `/proc/sys`. */
export const sysctlPath = (name: string): string => dotted(name).replaceAll(/[./]/g, (each) => (each === "/" ? "." : "/"));

/** The namespace of a parameter, or of a pattern up to its `*`; undefined if it has none that is known. */
function namespaceOf(name: string): KernelNamespace | undefined {
  if (name === "kernel.sem" || ipcPrefixes.some((prefix) => name.startsWith(prefix))) return "ipc";
  return name.startsWith("net.") ? "net" : undefined;
}

/** A name, or the begin of names before a `*` at the end. */
const patternForm = /^(?=.{1,253}$)(?:[a-z0-9](?:[-_a-z0-9]*[a-z0-9])?[./])*(?:[a-z0-9][-_a-z0-9]*)?[a-z0-9*]$/;

/** Why a pattern cannot be allowed on a node; undefined if it can. As in the kubelet: only parameters that belong to a namespace. */
export function unsafeSysctlProblem(pattern: string): string | undefined {
  if (!patternForm.test(pattern)) return "must be the name of a sysctl such as kernel.msgmax, or a pattern such as kernel.msg*";
  if (namespaceOf(dotted(pattern).replace(/\*$/, "")) !== undefined) return undefined;
  return "must belong to a namespace: kernel.sem, kernel.shm*, kernel.msg*, fs.mqueue.* or net.*";
}

/** The kernel parameters that Pods of a node may set: the safe ones, and others by name or pattern. */
export class AllowedSysctls {
  readonly #names = new Map<string, KernelNamespace>();
  readonly #prefixes: { readonly prefix: string; readonly namespace: KernelNamespace }[] = [];

  /** `unsafe` are names and patterns that end with `*`. Throws a `RangeError` for one with {@link unsafeSysctlProblem}. */
  constructor(unsafe: readonly string[] = []) {
    for (const pattern of [...safe, ...unsafe]) {
      const problem = unsafeSysctlProblem(pattern);
      const name = dotted(pattern).replace(/\*$/, "");
      const namespace = namespaceOf(name);
      if (problem !== undefined || namespace === undefined)
        throw new RangeError(`sysctl ${JSON.stringify(pattern)} ${problem}`);
      if (pattern.endsWith("*")) this.#prefixes.push({ prefix: name, namespace });
      else this.#names.set(name, namespace);
    }
  }

  /** The namespace of a parameter that Pods may set. */
  namespaceOf(name: string): KernelNamespace | undefined {
    const full = dotted(name);
    return this.#names.get(full) ?? this.#prefixes.find(({ prefix }) => full.startsWith(prefix))?.namespace;
  }
}

/** Whether a parameter is one of the IPC namespace, allowed or not. */
export const isIpcSysctl = (name: string): boolean => namespaceOf(dotted(name)) === "ipc";
