import { BlockList, isIP } from "node:net";

/** Addresses of the embedded node's Pods, on the loopback interface. */
const podNetwork = new BlockList();
podNetwork.addSubnet("127.64.0.0", 10);

/** Addresses that belong to the host or its link. Without this list, a forged endpoint would reach every loopback listener. */
const refused = new BlockList();
refused.addSubnet("0.0.0.0", 8);
refused.addSubnet("127.0.0.0", 8);
refused.addSubnet("169.254.0.0", 16);
refused.addSubnet("224.0.0.0", 4);
refused.addAddress("255.255.255.255");
refused.addAddress("::", "ipv6");
refused.addAddress("::1", "ipv6");
refused.addSubnet("fe80::", 10, "ipv6");
refused.addSubnet("ff00::", 8, "ipv6");

/**
 * Whether a proxied request may connect to an address. As in kube-apiserver, loopback, link-local and multicast addresses are refused,
 * except for the Pod network of the embedded node. A host name is refused, since it may resolve to any of them.
 */
export function isProxyableAddress(host: string): boolean {
  const family = isIP(host);
  if (family === 0) return false;
  const type = family === 6 ? "ipv6" : "ipv4";
  return podNetwork.check(host, type) || !refused.check(host, type);
}
