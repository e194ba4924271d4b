import { once } from "node:events";
import { createServer, type IncomingMessage, type Server } from "node:http";
import { createServer as createTlsServer } from "node:https";
import type { AddressInfo, Socket } from "node:net";
import type { Duplex } from "node:stream";
import { type DeepReadonly, isJsonObject } from "@keelson/api-machinery";
import type { KeyPair } from "@keelson/api-machinery/certificates";
import type { Clock } from "@keelson/api-machinery/time";
import type { EventRecorder, Logger } from "@keelson/controller";
import type { Robot } from "../api/robot.ts";
import type { Task } from "../api/task.ts";
import { taskProblem } from "../controllers/tasks/running-task.ts";
import { commandProblem, execFeature, maxExecTimeoutMs, readCommand, readTerminal } from "../protocol/exec-messages.ts";
import { type LogRequest, readLogRequest } from "../protocol/log-messages.ts";
import type { ExecAccess, Refusal, TaskPermission } from "./exec-access.ts";
import { encodeFrame, execProtocol, type Frame, readFrames } from "./exec-frames.ts";
import type { ExecEnd, ExecHandle, ExecSessions } from "./exec-sessions.ts";
import { sendTaskLog } from "./task-log.ts";

/** Options of {@link ExecServer}. */
export interface ExecServerOptions {
  readonly access: ExecAccess;
  readonly sessions: Pick<ExecSessions, "open">;
  readonly namespace: string;
  readonly taskNamed: (name: string) => DeepReadonly<Task> | undefined;
  readonly robotNamed: (name: string) => DeepReadonly<Robot> | undefined;
  /** Calls the listener when a Task or a Robot has changed. Returns a function that ends this. */
  readonly onChange: (listener: () => void) => () => void;
  readonly events: EventRecorder;
  readonly clock: Clock;
  readonly log: Logger;
  /** Serves TLS with this certificate. Default: plain HTTP, for loopback only. */
  readonly tls?: KeyPair;
}

/** What a caller wants to run. */
interface ExecRequest {
  readonly command: readonly [string, ...string[]];
  readonly terminal?: { readonly columns: number; readonly rows: number };
  readonly timeoutMs: number;
}

const maxConnections = 256;
const handshakeTimeoutMs = 10_000;
/** Maximum time for a caller to read the end of a connection. */
const flushTimeoutMs = 60_000;
/** Maximum time for a caller to close its side after that. */
const closeTimeoutMs = 5_000;

/** The permissions that the two kinds of requests need, as those of Pods. */
const permissions = {
  exec: { verb: "create", subresource: "exec" },
  log: { verb: "get", subresource: "log" },
} as const satisfies Record<string, TaskPermission>;

/** A Task, and what is requested of it. */
interface Target {
  readonly name: string;
  readonly request: keyof typeof permissions;
}

/** Serves `GET /v1/namespaces/{namespace}/tasks/{name}/exec` and `.../log`, upgraded to the protocol of `exec-frames.ts`. */
export class ExecServer {
  readonly #options: ExecServerOptions;
  readonly #server: Server;
  readonly #sockets = new Set<Duplex>();

  constructor(options: ExecServerOptions) {
    this.#options = options;
    const { tls } = options;
    const timeouts = { headersTimeout: handshakeTimeoutMs, requestTimeout: handshakeTimeoutMs, noDelay: true, keepAlive: true };
    this.#server =
      tls === undefined
        ? createServer(timeouts)
        : createTlsServer({ ...timeouts, cert: tls.certificate, key: tls.key, minVersion: "TLSv1.3" });
    this.#server.maxConnections = maxConnections;
    this.#server.on("request", (_request, response) => {
      response.writeHead(426, { connection: "close", upgrade: execProtocol }).end();
    });
    this.#server.on("upgrade", (request: IncomingMessage, socket: Duplex, head: Buffer) => {
      this.#sockets.add(socket);
      socket.on("close", () => this.#sockets.delete(socket)).on("error", () => {});
      void this.#accept(request, socket, head).catch((error: unknown) => {
        options.log.warn({ error: String(error) }, "exec connection failed");
        socket.destroy();
      });
    });
  }

  /** Listens; port 0 picks a free one. Resolves to the URL. **Errors**: those of `net.Server.listen`. */
  async listen(port: number, host: string): Promise<string> {
    this.#server.listen(port, host);
    await once(this.#server, "listening");
    const { port: actual } = this.#server.address() as AddressInfo;
    const scheme = this.#options.tls === undefined ? "http" : "https";
    return `${scheme}://${host.includes(":") ? `[${host}]` : host}:${actual}`;
  }

  async stop(): Promise<void> {
    if (!this.#server.listening) return;
    const closed = once(this.#server, "close");
    this.#server.close();
    for (const socket of this.#sockets) socket.destroy();
    this.#server.closeAllConnections();
    await closed;
  }

  async #accept(request: IncomingMessage, socket: Duplex, head: Buffer): Promise<void> {
    const target = this.#targetOf(request);
    if ("status" in target) return this.#refuse(socket, target);
    const { namespace, access } = this.#options;
    const { name } = target;
    const granted = await access.authorize(request, { namespace, name }, permissions[target.request]);
    if ("status" in granted) return this.#refuse(socket, granted);
    socket.write(`HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: ${execProtocol}\r\n\r\n`);
    const frames = readFrames(socket, head);
    const timer = this.#options.clock.setTimer(handshakeTimeoutMs, () => socket.destroy());
    const first = await frames.next();
    timer.cancel();
    if (first.done === true) return;
    if (target.request === "log") return await this.#sendLog(name, first.value, frames, socket as Socket);
    await this.#run(name, granted.user, { first: first.value, frames }, socket as Socket);
  }

  #targetOf({ url = "", headers }: IncomingMessage): Target | Refusal {
    const [, namespace, name, request] =
      /^\/v1\/namespaces\/([a-z0-9-]{1,63})\/tasks\/([a-z0-9.-]{1,253})\/(exec|log)$/.exec(url) ?? [];
    if (name === undefined) return { status: 404, message: "not found" };
    if (headers.upgrade?.toLowerCase() !== execProtocol) return { status: 400, message: `upgrade: must be ${execProtocol}` };
    if (namespace === this.#options.namespace) return { name, request: request === "log" ? "log" : "exec" };
    return { status: 404, message: `tasks of robots are in namespace ${this.#options.namespace}` };
  }

  async #run(name: string, user: string, { first, frames }: Frames, socket: Socket): Promise<void> {
    const request = readRequest(first);
    const opened = typeof request === "string" ? request : this.#open(name, user, request, socket);
    if (typeof opened === "string") return this.#finish(socket, { problem: opened });
    socket.on("close", () => opened.close());
    for await (const frame of frames) await forward(frame, opened);
    // Without the caller, no one reads the output, so an end of the connection in one direction ends the command too.
    opened.close();
  }

  async #sendLog(task: string, first: Frame, frames: Frames["frames"], socket: Socket): Promise<void> {
    const request = readLogStart(first);
    if (typeof request === "string") return this.#finish(socket, { problem: request });
    const gone = new AbortController();
    socket.on("close", () => gone.abort());
    // A reader sends nothing more. The end of its side is the end of both.
    void frames.next().then(
      () => gone.abort(),
      () => socket.destroy(),
    );
    const end = await sendTaskLog({
      ...this.#options,
      ...{ task, request },
      reader: {
        signal: gone.signal,
        output: (stream, data) => send(socket, encodeFrame(stream, data)),
        notice: (message) => void socket.write(encodeFrame("notice", Buffer.from(JSON.stringify({ message })))),
      },
    });
    this.#finish(socket, end);
  }

  /** Sends how a command ended. */
  #finish(socket: Socket, end: ExecEnd): void {
    const [type, body] = "exitCode" in end ? (["exit", end] as const) : (["error", { message: end.problem }] as const);
    if (!socket.destroyed) this.#end(socket, encodeFrame(type, Buffer.from(JSON.stringify(body))));
  }

  #refuse(socket: Duplex, { status, message }: Refusal): void {
    const body = JSON.stringify({ kind: "Status", apiVersion: "v1", status: "Failure", code: status, message });
    const head = `HTTP/1.1 ${status} Rejected\r\nConnection: close\r\nContent-Type: application/json`;
    this.#end(socket, `${head}\r\nContent-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`);
  }

  /** Sends the last data of a connection and closes it, even if the caller neither reads nor closes its side. */
  #end(socket: Duplex, data: string | Uint8Array): void {
    const { clock } = this.#options;
    const destroy = (): void => void socket.destroy();
    let timer = clock.setTimer(flushTimeoutMs, destroy, { background: true });
    socket.on("close", () => timer.cancel());
    socket.end(data, () => {
      timer.cancel();
      if (!socket.destroyed) timer = clock.setTimer(closeTimeoutMs, destroy, { background: true });
    });
  }

  /** Runs a command, or returns why it cannot be run. */
  #open(name: string, user: string, request: ExecRequest, socket: Socket): ExecHandle | string {
    const { taskNamed, robotNamed, sessions, events } = this.#options;
    const task = taskNamed(name);
    const robot = robotNamed(task?.spec.targetRobot ?? "");
    const problem = taskProblem(name, task, robot, { feature: execFeature, what: "commands" });
    const { uid: taskUid } = task?.metadata ?? {};
    if (problem !== undefined || task === undefined || taskUid === undefined)
      return problem?.message ?? `task ${name} not found`;
    const target = { taskUid, attempt: task.status?.attempt ?? 0 };
    // Arguments may contain secrets, and more users read Events than may run commands.
    const text = `${JSON.stringify(request.command[0].slice(0, 200))} with ${request.command.length - 1} arguments`;
    const record = (reason: string, note: string): void => events.event(task, { type: "Normal", reason, note });
    const handle = sessions.open(
      task.spec.targetRobot ?? "",
      { kind: "start", ...target, ...request },
      {
        onOutput: ({ stream, data }) => send(socket, encodeFrame(stream, data)),
        onEnd: (result) => {
          const how = "exitCode" in result ? `ended with status ${result.exitCode}` : `ended: ${result.problem}`;
          record("ExecEnded", `${text} of ${user} ${how}`);
          this.#finish(socket, result);
        },
      },
    );
    if (handle === undefined) return "the operator already runs the maximum number of commands; try again later";
    record("ExecStarted", `${user} runs ${text} on robot ${task.spec.targetRobot}`);
    return handle;
  }
}

/** The frames of a caller. */
interface Frames {
  readonly first: Frame;
  readonly frames: AsyncGenerator<Frame>;
}

async function send(socket: Socket, frame: Uint8Array): Promise<void> {
  if (!socket.destroyed && !socket.write(frame)) await drained(socket);
}

async function forward({ type, data }: Frame, handle: ExecHandle): Promise<void> {
  switch (type) {
    case "stdin":
      return handle.write(data);
    case "endStdin":
      return handle.endInput();
    case "resize": {
      const size = readTerminal(parse(data));
      if (size !== undefined) handle.resize(size);
      return;
    }
    default:
      throw new Error(`a caller must not send frames of type ${type}`);
  }
}

/** What the first frame asks for, or why it is not valid. */
function readRequest({ type, data }: Frame): ExecRequest | string {
  const body = parse(data);
  if (type !== "start" || !isJsonObject(body)) return "the first frame must be a start";
  const command = readCommand(body.command);
  const { timeoutMs } = body;
  if (command === undefined) {
    const words = Array.isArray(body.command) && body.command.every((word) => typeof word === "string") ? body.command : [];
    return commandProblem(words) ?? "command: must be a list of strings";
  }
  if (typeof timeoutMs !== "number" || !Number.isInteger(timeoutMs) || timeoutMs < 1 || timeoutMs > maxExecTimeoutMs)
    return `timeoutMs: must be between 1 and ${maxExecTimeoutMs}`;
  const terminal = body.terminal === undefined ? undefined : readTerminal(body.terminal);
  if (body.terminal !== undefined && terminal === undefined) return "terminal: must have columns and rows";
  return { command, timeoutMs, ...(terminal === undefined ? {} : { terminal }) };
}

/** What the first frame of a reader asks for, or why it is not valid. */
const readLogStart = ({ type, data }: Frame): LogRequest | string =>
  type === "start" ? readLogRequest(parse(data)) : "the first frame must be a start";

function parse(data: Uint8Array): unknown {
  try {
    return JSON.parse(Buffer.from(data).toString("utf8"));
  } catch {
    return undefined;
  }
}

/** Resolves when a socket accepts data again, or has closed. */
function drained(socket: Socket): Promise<void> {
  return new Promise((resolve) => {
    const done = (): void => {
      socket.off("drain", done).off("close", done);
      resolve();
    };
    socket.on("drain", done).on("close", done);
  });
}
