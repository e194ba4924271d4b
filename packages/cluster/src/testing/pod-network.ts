import { createHash } from "node:crypto";
import { createServer } from "node:net";

/** The networks are `127.64` to `127.127`, the range of Pod addresses. */
const firstNetwork = 64;
const networks = 64;
/** Listening on this port of the network's last address reserves the network. `keelson up` reserves its own in the same way. */
const reservationPort = 6442;

/** A reserved network for Pods. */
export interface PodNetwork {
  /** First two octets of Pod addresses. */
  readonly network: string;
  release(): Promise<void>;
}

/**
 * Reserves a network for the Pods of a test cluster, so that clusters in parallel tests do not share addresses. The same directory gets
 * the same network again unless another process took it. Throws if all networks are reserved.
 */
export async function reservePodNetwork(dataDir: string): Promise<PodNetwork> {
  const first = createHash("sha256").update(dataDir).digest().readUInt32BE(0) % networks;
  for (let tries = 0; tries < networks; tries++) {
    const network = `127.${firstNetwork + ((first + tries) % networks)}`;
    const release = await reserve(`${network}.255.254`);
    if (release !== undefined) return { network, release };
  }
  throw new RangeError(`all ${networks} networks for Pods of test clusters are in use`);
}

function reserve(host: string): Promise<(() => Promise<void>) | undefined> {
  return new Promise((resolve, reject) => {
    const server = createServer((socket) => socket.destroy());
    server.once("error", (error) => {
      if ("code" in error && error.code === "EADDRINUSE") resolve(undefined);
      else reject(error);
    });
    server.listen({ host, port: reservationPort, exclusive: true }, () => {
      server.unref();
      resolve(() => new Promise((closed) => void server.close(() => closed())));
    });
  });
}
