import { once } from "node:events";
import { connect, type Socket } from "node:net";
import type { Duplex } from "node:stream";
import type { Clock } from "@keelson/api-machinery/time";
import type { Program } from "@keelson/execution";
import { execChannels, readFrames, sendFrame } from "../protocol/exec-frames.ts";
import { whenWritable } from "../protocol/when-writable.ts";
import type { SandboxManager } from "../sandbox/sandbox-manager.ts";
import { RequestError } from "./agent-http.ts";

/** How long a connection waits until the agent listens on the port. Another process may hold it for a moment. */
const listenTimeoutMs = 2_000;

/** Options of {@link openPortSocket}. */
export interface PortSocketOptions {
  readonly manager: Pick<SandboxManager, "portAddress" | "onChange">;
  readonly clock: Clock;
  readonly program: Program;
  readonly port: number;
  readonly signal: AbortSignal;
}

/**
 * Connects to an exposed port of a program, on the address on which this agent relays it. While the agent listens there, no other process
 * can.
 *
 * **Errors**: `RequestError` 503 if the agent does not listen on the port within 2 s, or if `signal` aborts.
 */
export async function openPortSocket({ manager, clock, program, port, signal }: PortSocketOptions): Promise<Socket> {
  const host = manager.portAddress(program, port) ?? (await whenListening({ manager, clock, program, port, signal }));
  if (host === undefined)
    throw new RequestError(
      503,
      `port: the agent does not listen on ${port} for this sandbox; another process may use the port`,
    );
  const socket = connect({ host, port, allowHalfOpen: true });
  try {
    await once(socket, "connect", { signal });
    return socket;
  } catch (error) {
    socket.destroy();
    throw new RequestError(503, `could not connect to port ${port}: ${error instanceof Error ? error.message : String(error)}`);
  }
}

/** The address of a port once the agent listens on it; undefined if it does not in time. */
function whenListening({ manager, clock, program, port, signal }: PortSocketOptions): Promise<string | undefined> {
  return new Promise((resolve) => {
    const settle = (address: string | undefined): void => {
      unsubscribe();
      timer.cancel();
      signal.removeEventListener("abort", giveUp);
      resolve(address);
    };
    const giveUp = (): void => settle(undefined);
    const unsubscribe = manager.onChange(() => {
      const address = manager.portAddress(program, port);
      if (address !== undefined) settle(address);
    });
    const timer = clock.setTimer(listenTimeoutMs, giveUp, { background: true });
    signal.addEventListener("abort", giveUp, { once: true });
    if (signal.aborted) giveUp();
  });
}

/** Connects a caller with a port until either end closes. Each direction ends by itself: `closeStdin` ends the input, `exit` the output. */
export async function servePort(caller: Duplex, head: Buffer, target: Socket): Promise<void> {
  const close = (): void => {
    caller.destroy();
    target.destroy();
  };
  target.on("error", close);
  caller.once("close", close);
  const input = takeInput(caller, head, target).catch(close);
  try {
    for await (const data of target as AsyncIterable<Buffer>) await sendFrame(caller, execChannels.stdout, data);
    await sendFrame(caller, execChannels.exit, Buffer.alloc(0));
  } catch {
    // Without the last frame, the caller knows that the connection broke.
    close();
  }
  caller.end();
  await input;
}

async function takeInput(caller: Duplex, head: Buffer, target: Socket): Promise<void> {
  for await (const { channel, data } of readFrames(caller as AsyncIterable<Buffer>, head)) {
    if (channel === execChannels.closeStdin) target.end();
    else if (channel === execChannels.stdin && target.writable && !target.write(data)) await whenWritable(target);
  }
}
