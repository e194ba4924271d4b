import { type Duplex, pipeline } from "node:stream";
import { text } from "node:stream/consumers";
import type { UpgradingTransport } from "@keelson/client";
import { SpdyConnection } from "./spdy-connection.ts";

/** Which port of which Pod. */
export interface PodPort {
  readonly namespace: string;
  readonly pod: string;
  readonly port: number;
}

/** Protocol of port-forward over SPDY/3.1, as kube-apiserver and kubelets speak it. */
const protocol = "portforward.k8s.io";

/**
 * Connects to a port of a Pod through the API server (`pods/portforward`). It is a connection of its own, so that one that nobody
 * reads holds back no other. Rejects with a StatusError where the API server refuses.
 */
export async function openPodPort(
  transport: UpgradingTransport,
  target: PodPort,
  signal?: AbortSignal,
): Promise<{
  /** Carries bytes between `local` and the port until both ends are over. Answers what went wrong, if anything did. */
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
        (said) => said,
        () => "",
      );
      void problem.then((said) => said !== "" && local.destroy());
      // A client that breaks off takes the port's connection with it, and the other way round.
      await Promise.all([carried(local, data), carried(data, local)]);
      connection.close();
      return (await Promise.race([problem, connection.closed])) || undefined;
    },
  };
}

function carried(from: Duplex, to: Duplex): Promise<void> {
  return new Promise((resolve) => void pipeline(from, to, () => resolve()));
}
