import { join } from "node:path";

/** Path of the kubelet's Unix socket. */
export const kubeletSocket = (dataDir: string): string => join(dataDir, "node", "kubelet.sock");
