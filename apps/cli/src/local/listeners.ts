import type { ListenerDescription } from "@keelson/operator";

/** The listeners of the `keelson` command itself, in addition to those of its operators. */
export const ownListeners: readonly ListenerDescription[] = [
  {
    name: "API server",
    address: "`127.0.0.1:6443` (`--bind-address`, `--api-port`)",
    authentication:
      "TLS 1.2 or newer: client certificates of its CA, service-account tokens; requests without credentials are `system:anonymous`",
    permissions: "RBAC on every request, before the body is read",
  },
  {
    name: "API server for components",
    address: "the Unix socket `DIR/api/server.sock`",
    authentication:
      "the modes of its directory (0700) and of the socket (0600): the machine's user; and a component's token, valid for this run",
    permissions: "RBAC on every request, before the body is read",
  },
  {
    name: "Metrics and reconcile traces",
    address: "a free port of `127.0.0.1` (`--metrics-port`)",
    authentication: "the bearer token in `DIR/metrics-token`, or an API token whose user may `get` the path",
    permissions: "read; the probes `/healthz` and `/readyz` on the same port need no token",
  },
  {
    name: "Node",
    address: "the Unix socket `DIR/node/kubelet.sock`",
    authentication: "the socket's mode (0600): the machine's user",
    permissions: "logs, exec and port-forward of Pods, on behalf of the API server",
  },
  {
    name: "Services",
    address: "each Service's ports, on its address in `127.128.0.0/10`",
    authentication: "that of the Pods behind the Service",
    permissions: "TCP connections to its ready Pods",
  },
  {
    name: "Reservation of Pod addresses",
    address: "port 6442 of the last address of the data directory's Pod network, in `127.64.0.0/10`",
    authentication: "none",
    permissions: "none: connections are closed without reading",
  },
  {
    name: "`keelson node`",
    address: "port 10250 of the machine's address (`--address`, `--port`), while the command runs",
    authentication: "TLS 1.2 or newer: client certificates of the cluster's CA, or an API token (TokenReview)",
    permissions:
      "logs, exec and port-forward of the node's Pods, for users with permission to use `nodes/proxy` of this Node (SubjectAccessReview)",
  },
  {
    name: "`keelson port-forward`",
    address: "the local port, on `127.0.0.1` (`--address`), while the command runs",
    authentication: "that of the Pod",
    permissions: "TCP connections to that Pod",
  },
];
