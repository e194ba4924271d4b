/** A request of the kubelet's HTTPS API. */
export interface KubeletRequest {
  /** The subresource of Nodes that authorizes it, as in kube-apiserver's kubelet authorization. */
  readonly subresource: "healthz" | "metrics" | "proxy";
  /** The path in the Kubernetes API, with the query, of a request for a Pod. Undefined for other requests. */
  readonly podUrl: string | undefined;
}

/** The Pod subresource behind a path segment of the kubelet's API. */
const podSubresources: Readonly<Record<string, string>> = {
  containerLogs: "log",
  exec: "exec",
  attach: "attach",
  portForward: "portforward",
};

/** How the API server passes the options of exec and attach on to a kubelet. */
const streamParameters: Readonly<Record<string, string>> = {
  input: "stdin",
  output: "stdout",
  error: "stderr",
  tty: "tty",
};

/**
 * Parses a path with query of the kubelet's API:
 *
 *     /containerLogs/NAMESPACE/POD/CONTAINER
 *     /exec/NAMESPACE/POD[/UID]/CONTAINER, and attach
 *     /portForward/NAMESPACE/POD[/UID]
 */
export function parseKubeletPath(url: string): KubeletRequest {
  // Not relative to a base: `//host/exec` would be another host's path.
  const absolute = `https://kubelet${url}`;
  if (!URL.canParse(absolute)) return { subresource: "proxy", podUrl: undefined };
  const { pathname, searchParams } = new URL(absolute);
  const [, action = "", ...rest] = pathname.split("/");
  if (action === "healthz" && rest.length === 0) return { subresource: "healthz", podUrl: undefined };
  if (action === "metrics") return { subresource: "metrics", podUrl: undefined };
  const subresource = Object.hasOwn(podSubresources, action) ? podSubresources[action] : undefined;
  const [namespace, pod] = rest;
  const others = rest.slice(2);
  const hasContainer = subresource !== "portforward";
  const isComplete = hasContainer
    ? others.length === 1 || (others.length === 2 && action !== "containerLogs")
    : others.length <= 1;
  if (subresource === undefined || !namespace || !pod || !isComplete) return { subresource: "proxy", podUrl: undefined };
  const query = new URLSearchParams();
  if (hasContainer) query.set("container", decode(others.at(-1) ?? ""));
  for (const [name, value] of searchParams) {
    if (name === "container") continue;
    const parameter = action === "exec" || action === "attach" ? (streamParameters[name] ?? name) : name;
    query.append(parameter, value);
  }
  return { subresource: "proxy", podUrl: `/api/v1/namespaces/${namespace}/pods/${pod}/${subresource}?${query.toString()}` };
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
