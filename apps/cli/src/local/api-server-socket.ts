import { join } from "node:path";

/** Path of the API server's Unix socket, which the components of `keelson up` use. */
export const apiServerSocket = (dataDir: string): string => join(dataDir, "api", "server.sock");
