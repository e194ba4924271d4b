import { connect } from "node:http2";
import type { Clock } from "@keelson/api-machinery/time";

/** The states of `grpc.health.v1.HealthCheckResponse.ServingStatus`, by number. */
const states = ["UNKNOWN", "SERVING", "NOT_SERVING", "SERVICE_UNKNOWN"] as const;

const unimplemented = "12";
const notFound = "5";

/**
 * Checks a program's health (`grpc.health.v1.Health/Check`, GRPC Health Checking Protocol), without TLS like the kubelet. Returns the
 * problem, or `undefined` if it is serving. Never throws.
 */
export function grpcHealth(
  target: { readonly host: string; readonly port: number; readonly service: string },
  timeoutMs: number,
  clock: Clock,
): Promise<string | undefined> {
  const { host, port, service } = target;
  return new Promise((resolve) => {
    const session = connect(`http://${host}:${port}`);
    const chunks: Buffer[] = [];
    let status: string | undefined;
    let message = "";
    const done = (problem: string | undefined): void => {
      timer.cancel();
      resolve(problem);
      session.destroy();
    };
    const timer = clock.setTimer(timeoutMs, () =>
      done(`timeout: failed to connect service "${host}:${port}" within ${timeoutMs / 1000}s: context deadline exceeded`),
    );
    let isConnected = false;
    session.on("connect", () => (isConnected = true));
    const failed = ({ message: text, cause }: Error): void => {
      const reason = cause instanceof Error ? cause.message : text;
      done(isConnected ? `error: health rpc failed: ${reason}` : `error: failed to connect to ${host}:${port}: ${reason}`);
    };
    session.on("error", failed);
    const request = session.request({
      ":method": "POST",
      ":path": "/grpc.health.v1.Health/Check",
      "content-type": "application/grpc",
      te: "trailers",
      "user-agent": "kube-probe/1.35",
    });
    const readTrailers = (headers: Readonly<Record<string, unknown>>): void => {
      const { "grpc-status": code, "grpc-message": text } = headers;
      if (typeof code === "string") status = code;
      if (typeof text === "string") message = text;
    };
    request.on("response", readTrailers);
    request.on("trailers", readTrailers);
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.on("error", failed);
    request.on("end", () => done(verdict(status, message, Buffer.concat(chunks))));
    request.end(messageOf(service));
  });
}

function verdict(status: string | undefined, message: string, body: Buffer): string | undefined {
  if (status === unimplemented) {
    return `error: this server does not implement the grpc health protocol (grpc.health.v1.Health): ${message}`;
  }
  if (status === notFound) return "error: health rpc failed: unknown service";
  if (status !== "0") return `error: health rpc failed: status ${status ?? "unknown"} ${message}`.trim();
  // One message: a compression byte, four length bytes, then field 1 as a varint below 128, omitted if 0.
  const state = states[body[5] === 0x08 ? (body[6] ?? 0) : 0] ?? "UNKNOWN";
  return state === "SERVING" ? undefined : `service unhealthy (responded with "${state}")`;
}

/** `HealthCheckRequest{service}` in a gRPC frame. */
function messageOf(service: string): Buffer {
  const name = Buffer.from(service);
  const length: number[] = [];
  for (let left = name.length; ; left >>= 7) {
    length.push(left > 0x7f ? (left & 0x7f) | 0x80 : left);
    if (left <= 0x7f) break;
  }
  const message = name.length === 0 ? Buffer.alloc(0) : Buffer.concat([Buffer.from([0x0a, ...length]), name]);
  const frame = Buffer.alloc(5);
  frame.writeUInt32BE(message.length, 1);
  return Buffer.concat([frame, message]);
}
