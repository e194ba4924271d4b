import { type Duplex, pipeline } from "node:stream";
import { text } from "node:stream/consumers";
import type { UpgradingTransport } from "@keelson/client";
import { SpdyConnection } from "./spdy-connection.ts";

/** A port of a Pod. */
export interface PodPort {
  readonly namespace: string;
  readonly pod: string;
  readonly port: number;
}

/** The port-forward protocol over SPDY/3.1, as in kube-apiserver and the kubelet. */
const protocol = "portforward.k8s.io";

/**
 * Connects to a port of a Pod through the API server (`pods/portforward`). Uses its own connection, so that a slow reader blocks
 * no other. Rejects with a StatusError if the API server rejects the request.
 */
export async function openPodPort(
  transport: UpgradingTransport,
  target: PodPort,
  signal?: AbortSignal,
): Promise<{
  /** Copies bytes between `local` and the port until both sides have ended. Returns the problem, if any. */
  carry(local: Duplex): Promise<string | undefined>;
}> {
  const { namespace, pod, port } = target;
  const { socket } = await transport.upgrade({
    method: "GET",
    path: `/api/v1/namespaces/${encodeURIComponent(namespace)}/pods/${encodeURIComponent(pod)}/portforward`,
    headers: { "x-stream-protocol-version": protocol },
    protocol: "SPDY/3.1",
    signal,
  });
  const connection = new SpdyConnection(socket);
  return {
    async carry(local) {
      const headers = { port: String(port), requestid: "0" };
      const error = await connection.open({ ...headers, streamtype: "error" });
      error.end();
      const data = await connection.open({ ...headers, streamtype: "data" });
      const problem = text(error).then(
        (message) => message,
        () => "",
      );
      void problem.then((message) => message !== "" && local.destroy());
      // An error on one side destroys the other.
      await Promise.all([carried(local, data), carried(data, local)]);
      connection.close();
      return (await Promise.race([problem, connection.closed])) || undefined;
    },
  };
}

function carried(from: Duplex, to: Duplex): Promise<void> {
  return new Promise((resolve) => void pipeline(from, to, () => resolve()));
}
