import { connect } from "node:net";
import { type Duplex, pipeline } from "node:stream";
import { statusError } from "@keelson/api-machinery";
import type { Kubelet } from "../kubelet.ts";
import type { PodCall } from "../logs/pod-log.ts";
import type { PodView } from "../pod/pod-view.ts";
import { SpdyConnection, type SpdyStream } from "./spdy-connection.ts";
import { acceptSpdy, agree, type Spoken, type UpgradeAnswer } from "./upgrade.ts";
import { webSocketStream } from "./websocket-stream.ts";

/** Protocols of port-forward: SPDY, as it is or inside a WebSocket (KEP-4006). */
const portForwardProtocols: Spoken = { websocket: ["SPDY/3.1+portforward.k8s.io"], spdy: ["portforward.k8s.io"] };

/** Answers `pods/portforward`. Throws a StatusError before the connection changes its protocol. */
export async function answerPortForward(
  call: PodCall,
  findPod: () => Promise<PodView>,
  kubelet: Kubelet | undefined,
): Promise<UpgradeAnswer> {
  const pod = await findPod();
  const { namespace = "", name = "" } = pod.metadata;
  const address = kubelet?.address(namespace, name);
  if (address === undefined || pod.status?.phase !== "Running") {
    throw statusError(
      "BadRequest",
      `unable to forward port because pod ${name} is not running here. Current status=${pod.status?.phase ?? "Pending"}`,
    );
  }
  const agreed = agree(call, portForwardProtocols);
  return {
    kind: "upgrade",
    connect(request) {
      const transport =
        agreed.over === "spdy" ? acceptSpdy(request, agreed.protocol) : webSocketStream(request.socket, request.head, agreed);
      forwardPorts(
        transport,
        (port) => connect({ host: address, port, allowHalfOpen: true }),
        `pod ${name}, uid ${pod.metadata.uid}`,
      );
    },
  };
}

/**
 * Forwards connections that a client opens as pairs of streams with the same `requestid`: `data` carries the bytes both ways, and
 * `error` tells why it did not work.
 */
export function forwardPorts(transport: Duplex, open: (port: number) => Duplex, pod: string): void {
  const waiting = new Map<string, SpdyStream>();
  const connection = new SpdyConnection(transport, (stream) => {
    const { streamtype, port = "", requestid = "" } = stream.headers;
    const other = streamtype === "error" ? "data" : "error";
    const partner = waiting.get(`${other}/${requestid}`);
    if (partner === undefined) {
      waiting.set(`${streamtype}/${requestid}`, stream);
      stream.on("close", () => waiting.delete(`${streamtype}/${requestid}`));
      return;
    }
    waiting.delete(`${other}/${requestid}`);
    const [data, error] = streamtype === "data" ? [stream, partner] : [partner, stream];
    error.resume();
    const fail = (why: string): void => {
      error.end(`error forwarding port ${port} to ${pod}: ${why}`);
      data.destroy();
    };
    const number = Number(port);
    if (!Number.isInteger(number) || number < 1 || number > 65535) return fail("this is no port");
    const target = open(number);
    target.once("error", (cause) => fail(cause.message));
    pipeline(data, target, () => {});
    pipeline(target, data, () => {
      if (!error.writableEnded) error.end();
    });
  });
  void connection.closed.then(() => waiting.clear());
}
