import { connect } from "node:net";
import { type Duplex, pipeline } from "node:stream";
import { statusError } from "@keelson/api-machinery";
import type { Kubelet } from "../kubelet.ts";
import type { PodCall } from "../logs/pod-log.ts";
import type { PodView } from "../pod/pod-view.ts";
import { SpdyConnection, type SpdyStream } from "./spdy-connection.ts";
import { acceptSpdy, agree, type SupportedProtocols, type UpgradeAnswer } from "./upgrade.ts";
import { webSocketStream } from "./websocket-stream.ts";

/** Port-forward protocols: SPDY, directly or tunnelled in a WebSocket (KEP-4006). */
const portForwardProtocols: SupportedProtocols = { websocket: ["SPDY/3.1+portforward.k8s.io"], spdy: ["portforward.k8s.io"] };

/** Serves `pods/portforward`. Throws a StatusError before the protocol is switched. */
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
      `unable to forward port because pod ${name} is not running on this node. Current status=${pod.status?.phase ?? "Pending"}`,
    );
  }
  const agreed = agree(call, portForwardProtocols);
  return {
    kind: "upgrade",
    connect(request) {
      request.onStatus?.(101);
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
 * Forwards connections, which a client opens as pairs of streams with the same `requestid`: `data` carries the bytes in both
 * directions, `error` the reason of a failure.
 */
function forwardPorts(transport: Duplex, open: (port: number) => Duplex, pod: string): void {
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
    const fail = (reason: string): void => {
      error.end(`error forwarding port ${port} to ${pod}: ${reason}`);
      data.destroy();
    };
    const number = Number(port);
    if (!Number.isInteger(number) || number < 1 || number > 65535) return fail("port must be between 1 and 65535");
    const target = open(number);
    target.on("error", (cause) => fail(cause.message));
    pipeline(data, target, () => {});
    pipeline(target, data, () => {
      if (!error.writableEnded) error.end();
    });
  });
  void connection.closed.then(() => waiting.clear());
}
