/** Addresses of the API server. */
export interface ServerAddresses {
  /** The cluster IP of the Service `kubernetes`. */
  readonly clusterIp: string;
  /** The address block of Services: `127.200.0.0/16`. */
  readonly serviceCidr: string;
  /** What the server's certificate covers in addition to this machine's own names. */
  readonly hosts: readonly string[];
}

/** Addresses of a server that listens on `bindAddress` (default 127.0.0.1) in a network of Services (default 127.200). */
export function addressesOf(options: { readonly bindAddress?: string; readonly serviceNetwork?: string }): ServerAddresses {
  const { bindAddress = "127.0.0.1", serviceNetwork = "127.200" } = options;
  const isLoopback = bindAddress === "127.0.0.1" || bindAddress === "::1";
  const clusterIp = `${serviceNetwork}.0.1`;
  return { clusterIp, serviceCidr: `${serviceNetwork}.0.0/16`, hosts: isLoopback ? [clusterIp] : [bindAddress, clusterIp] };
}
