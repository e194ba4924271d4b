import type { NodeContext } from "../node-context.ts";

/** A summary of a node for users. */
export function describeNode({ nodeName, defaultRuntime, runtimes, canMount: mayMount }: NodeContext): string {
  const limits = mayMount
    ? ""
    : "; not running as root: no volumes in Pods, no runAsUser, no Services on ports below 1024, service names only in KEELSON_HOSTS";
  const others = runtimes.names.filter((name) => name !== defaultRuntime);
  const classes = others.length === 0 ? "" : ` (runtimeClassName: ${others.join(", ")})`;
  return `${nodeName}: Pods run ${describeRuntime(defaultRuntime)}${classes}${limits}`;
}

function describeRuntime(handler: string): string {
  return handler === "process" ? "as programs of this machine" : `in ${handler}`;
}
