import { join } from "node:path";
import type { FastPathAccess } from "../fastpath-flags.ts";
import { authorityFile } from "../tls/own-certificate.ts";

/** File below the operator's data directory with the token of the fast path. */
export const fastPathTokenFile = (dataDir: string): string => join(dataDir, "fastpath-token");

/** How callers authenticate, for people. */
export function describeAccess({ acceptsToken, isOpen, tls }: FastPathAccess, dataDir: string): string {
  const ways = [
    ...(isOpen ? ["open to all programs of this machine"] : []),
    ...(acceptsToken ? [`token in ${fastPathTokenFile(dataDir)}`] : []),
    ...(tls === undefined ? [] : [tls.files === undefined ? `TLS with ${authorityFile(dataDir)}` : "TLS"]),
  ];
  return ways.join(", ");
}
