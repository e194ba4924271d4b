import { type Duplex, duplexPair } from "node:stream";
import { type DeepReadonly, isStatusError } from "@keelson/api-machinery";
import { compilePattern } from "@keelson/api-machinery/pattern";
import type { Clock } from "@keelson/api-machinery/time";
import type { UpgradingTransport } from "@keelson/client";
import { openPodPort } from "@keelson/cluster/port-forward";
import type { PortForwardAction } from "../api/tool-actions.ts";
import type { ChosenPod } from "./choose-pod.ts";
import { sendHttp } from "./http-tool.ts";
import { OutputTail } from "./output-tail.ts";
import { ToolError } from "./tool-error.ts";
import type { ToolResult } from "./tool-report.ts";

/** Inputs of {@link forwardPort}. */
export interface PortForwardRun {
  readonly transport: UpgradingTransport;
  readonly pod: ChosenPod;
  readonly portForward: DeepReadonly<PortForwardAction>;
  readonly giveUpAtMs: number;
  readonly acceptsAnyStatus: boolean;
  readonly clock: Clock;
  readonly signal: AbortSignal;
  /** Default: {@link openPodPort}. */
  readonly openPort?: typeof openPodPort;
}

/**
 * Sends an HTTP request or a text to a port of a Pod through the API server.
 *
 * **Errors**: a {@link ToolError} if there is no response, or if the API server refuses the connection.
 */
export async function forwardPort(run: PortForwardRun): Promise<ToolResult> {
  const { portForward, pod, clock, signal, giveUpAtMs, acceptsAnyStatus } = run;
  if (portForward.send !== undefined) return sendText(run, portForward.send);
  const { path = "/", ...request } = portForward.http ?? {};
  const url = `http://${pod.name}:${portForward.port}${path.startsWith("/") ? path : `/${path}`}`;
  const exchange = { request: { ...request, url }, giveUpAtMs, acceptsAnyStatus, clock, signal };
  return sendHttp({ ...exchange, connect: async (limit) => (await open(run, limit)).socket });
}

/** A connection to the port. */
interface PortConnection {
  readonly socket: Duplex;
  /** Why the connection broke; undefined if both sides ended it. Never rejects. */
  readonly broken: Promise<PortConnectionError | undefined>;
}

/** A connection that was refused or broke. Another attempt may succeed, unlike after a {@link ToolError}. */
class PortConnectionError extends Error {
  override readonly name = "PortConnectionError";
  readonly code = "ConnectionBroken";
}

async function open(run: PortForwardRun, signal: AbortSignal): Promise<PortConnection> {
  const { transport, pod, portForward, openPort = openPodPort } = run;
  try {
    const port = await openPort(transport, { namespace: pod.namespace, pod: pod.name, port: portForward.port }, signal);
    const [near, far] = duplexPair();
    // The connection may break while no reader listens.
    near.on("error", () => {});
    // In Node.js 20, destroying one side of a pair does not end the other.
    near.on("close", () => far.destroy());
    const broken = port.carry(far).then(
      (problem) => {
        if (problem !== undefined) return new PortConnectionError(problem);
        return far.writableFinished ? undefined : new PortConnectionError("the connection broke");
      },
      (cause: unknown) => new PortConnectionError("the connection broke", { cause }),
    );
    void broken.then((error) => error !== undefined && near.destroy(error));
    return { socket: near, broken };
  } catch (error) {
    if (isStatusError(error, "Forbidden")) throw new ToolError("Forbidden", error.message, { cause: error });
    throw error;
  }
}

/** Sends a text, and reads until the response matches `until` or the connection ends. */
async function sendText(run: PortForwardRun, text: string): Promise<ToolResult> {
  const { portForward, giveUpAtMs, clock } = run;
  const pattern = portForward.until === undefined ? undefined : compilePattern(portForward.until);
  const output = new OutputTail();
  const { socket, broken } = await open(run, run.signal);
  const until = pattern === undefined ? "the end of the connection" : (portForward.until ?? "");
  const late = new ToolError("NoResponse", `the response did not reach ${until} in time`);
  const timer = clock.setTimer(Math.max(giveUpAtMs - clock.now(), 1_000), () => socket.destroy(late));
  try {
    socket.write(text);
    for await (const chunk of socket.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>) {
      output.add(chunk);
      if (pattern?.test(output.text()) === true) return { exitCode: 0, ...output.result(), stderr: "" };
    }
    socket.end();
    // A refused connection also ends without a response.
    const error = await broken;
    if (error !== undefined) throw error;
  } catch (error) {
    run.signal.throwIfAborted();
    if (error instanceof ToolError) throw error;
    throw new ToolError("PortForwardFailed", error instanceof Error ? error.message : String(error), { cause: error });
  } finally {
    timer.cancel();
    socket.destroy();
  }
  if (pattern === undefined) return { exitCode: 0, ...output.result(), stderr: "" };
  throw new ToolError("NoResponse", `the connection ended before the response matched ${until}`);
}
