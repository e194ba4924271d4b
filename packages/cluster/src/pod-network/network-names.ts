import { createHash } from "node:crypto";

/** The names and addresses of the Pod network of one data directory. */
export interface NetworkNames {
  /** The network namespace that routes between Pods, Services and the machine. */
  readonly router: string;
  /** The machine's end of the link to {@link router}. */
  readonly link: string;
  /** The network of Pods, and that of Services, in CIDR notation. */
  readonly pods: string;
  readonly services: string;
  /** The machine's address on {@link link}, which is the node's. */
  readonly nodeAddress: string;
  /** The address of {@link router} on the link. */
  readonly routerAddress: string;
  /** The nftables table of the machine. */
  readonly table: string;
}

/** Where `ip netns` keeps namespaces. */
export const namespacesDirectory = "/run/netns";

/** Derives the names of a data directory's network. `podNetwork` and `serviceNetwork` are the first two octets of addresses. */
export function networkNames(dataDir: string, podNetwork: string, serviceNetwork: string): NetworkNames {
  const id = createHash("sha256").update(dataDir).digest("hex").slice(0, 8);
  return {
    router: `keelson-${id}`,
    link: `kl${id}`,
    pods: `${podNetwork}.0.0/16`,
    services: `${serviceNetwork}.0.0/16`,
    nodeAddress: `${podNetwork}.255.254`,
    routerAddress: `${podNetwork}.255.253`,
    table: `keelson_${id}`,
  };
}

/** The name of a Pod's namespace. */
export function podNamespace({ router }: NetworkNames, podUid: string): string {
  return `${router}-${podUid}`;
}

/** The uid of the Pod whose namespace has this name; undefined if it is not one of this network. */
export function podOfNamespace({ router }: NetworkNames, name: string): string | undefined {
  return name.startsWith(`${router}-`) ? name.slice(router.length + 1) : undefined;
}

/** The router's end of a Pod's link. */
export function podLink(podUid: string): string {
  return `p${createHash("sha256").update(podUid).digest("hex").slice(0, 12)}`;
}

/** The path by which programs join a namespace. */
export function namespacePath(name: string): string {
  return `${namespacesDirectory}/${name}`;
}
