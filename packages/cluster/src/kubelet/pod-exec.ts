import type { Duplex } from "node:stream";
import { readlink } from "node:fs/promises";
import { spawn } from "node:child_process";
import { type Status, statusError } from "@keelson/api-machinery";
import type { Program } from "@keelson/execution";
import { childrenOf } from "./child-processes.ts";
import { killCommand, spawnInContainer } from "./exec-process.ts";
import type { Kubelet } from "./kubelet.ts";
import { chooseContainer, type PodCall } from "./pod-log.ts";
import { type LogTimes, readLog } from "./log-reader.ts";
import type { PodView } from "./pod-view.ts";
import { acceptWebSocket, handshakeKey, type WebSocketEnd } from "./websocket.ts";

/** A connection that its client wants to speak another protocol on; the API server hands it over. */
export interface UpgradeRequest {
  readonly socket: Duplex;
  /** What came after the request already. */
  readonly head: Buffer;
  /** Path and query as they came: `command` occurs more than once. */
  readonly url: string;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
}

/** An answer that takes over the connection. */
export interface UpgradeAnswer {
  readonly kind: "upgrade";
  connect(request: UpgradeRequest): void;
}

const channels = { stdin: 0, stdout: 1, stderr: 2, error: 3, resize: 4, close: 255 } as const;
const protocols = ["v5.channel.k8s.io", "v4.channel.k8s.io"] as const;

/** Answers `pods/exec` and `pods/attach` by WebSocket. Throws a StatusError before the connection changes its protocol. */
export async function answerExec(
  call: PodCall,
  kind: "exec" | "attach",
  findPod: () => Promise<PodView>,
  kubelet: Kubelet | undefined,
): Promise<UpgradeAnswer> {
  // The container first: kubectl tries another protocol after a refusal, and shows only what is said then.
  const pod = await findPod();
  const container = chooseContainer(pod, call.query["container"]);
  const { namespace = "", name = "" } = pod.metadata;
  const found = kubelet?.container(namespace, name, container);
  const program = found?.program;
  if (found === undefined || program === undefined || program.state.kind !== "running") {
    throw statusError("BadRequest", `container ${container} of pod ${name} is not running`);
  }
  const headers = call.request.headers ?? {};
  const offered = (headers["sec-websocket-protocol"] ?? "").split(",").map((each) => each.trim());
  const protocol = protocols.find((each) => offered.includes(each));
  const key = handshakeKey(headers);
  if (key === undefined || protocol === undefined) {
    throw statusError(
      "BadRequest",
      `pods/${kind} is spoken by WebSocket here, with the protocol ${protocols[0]}: kubectl 1.31 and newer do`,
    );
  }
  return {
    kind: "upgrade",
    connect({ socket, head, url, headers: asked }) {
      const query = new URL(url, "http://localhost").searchParams;
      const handshake = { key: handshakeKey(asked) ?? key, protocol };
      if (kind === "attach") attach(socket, head, handshake, program, found.times(program));
      else exec(socket, head, handshake, program, query);
    },
  };
}

type Handshake = Parameters<typeof acceptWebSocket>[2];

function exec(socket: Duplex, head: Buffer, handshake: Handshake, program: Program, query: URLSearchParams): void {
  const is = (name: string): boolean => ["true", "1"].includes(query.get(name) ?? "");
  const command = query.getAll("command");
  const isTty = is("tty");
  // `script` makes the terminal: nothing else that a plain machine has does.
  const words = isTty
    ? ["script", "--quiet", "--return", "--flush", "--command", command.map(quote).join(" "), "/dev/null"]
    : command;
  const child = spawnInContainer(program, words, isTty ? { TERM: "xterm" } : {});
  let size: Buffer | undefined;
  const fit = (): void => {
    if (size !== undefined && child.pid !== undefined) void resize(child.pid, size);
  };
  const peer = acceptWebSocket(socket, head, handshake, {
    message(data) {
      const channel = data[0];
      if (channel === channels.stdin) {
        if (child.stdin?.write(data.subarray(1)) === false) {
          peer.pause();
          child.stdin.once("drain", () => peer.resume());
        }
      } else if (channel === channels.close && data[1] === channels.stdin) child.stdin?.end();
      else if (channel === channels.resize && isTty) {
        size = data.subarray(1);
        fit();
      }
    },
    closed() {
      // Nobody sees what it does any more.
      killCommand(child);
    },
  });
  // The size comes before the terminal is there: it is set again when the first output tells that it is.
  child.stdout?.once("data", fit);
  child.stdin?.on("error", () => {});
  if (!is("stdin")) child.stdin?.end();
  const outputs = [pump(child.stdout, channels.stdout, peer), pump(child.stderr, channels.stderr, peer)];
  let isOver = false;
  const finish = (status: Status): void => {
    if (isOver) return;
    isOver = true;
    peer.send(message(channels.error, Buffer.from(JSON.stringify(status))));
    peer.close(1000);
  };
  child.on("error", (error) => finish(failure(`error executing command: ${error.message}`, 126)));
  child.on("close", (code, signal) => {
    void Promise.all(outputs).then(() => {
      const exitCode = code ?? (signal === null ? 1 : 137);
      finish(
        exitCode === 0
          ? { kind: "Status", apiVersion: "v1", metadata: {}, status: "Success" }
          : failure(`command terminated with non-zero exit code: exit status ${exitCode}`, exitCode),
      );
    });
  });
}

/** The output of the container's program from now on. Its input is nobody's: programs are started without one. */
function attach(socket: Duplex, head: Buffer, handshake: Handshake, program: Program, times: LogTimes): void {
  const gone = new AbortController();
  const peer = acceptWebSocket(socket, head, handshake, { message: () => {}, closed: () => gone.abort() });
  const copy = async (): Promise<void> => {
    const options = { follow: true, tailLines: 0, timestamps: false, signal: gone.signal };
    for await (const bytes of readLog(program, options, times)) {
      if (!peer.send(message(channels.stdout, bytes))) await peer.drained();
    }
    peer.send(message(channels.error, Buffer.from(JSON.stringify({ metadata: {}, status: "Success" }))));
    peer.close(1000);
  };
  copy().catch(() => peer.close(1011));
}

/** Sends what a stream brings, no faster than the peer takes it. */
async function pump(from: NodeJS.ReadableStream | null, channel: number, peer: WebSocketEnd): Promise<void> {
  if (from === null) return;
  try {
    for await (const chunk of from) {
      if (!peer.send(message(channel, chunk as Buffer))) await peer.drained();
    }
  } catch {
    // The pipe broke with its process: that the process ended is what counts.
  }
}

/** Tells the terminal below `script` its size. */
async function resize(pid: number, data: Buffer): Promise<void> {
  try {
    const { Width: columns, Height: rows } = JSON.parse(data.toString("utf8")) as { Width?: unknown; Height?: unknown };
    if (!Number.isInteger(columns) || !Number.isInteger(rows)) return;
    for (const child of await childrenOf(pid)) {
      const terminal = `/proc/${child}/fd/0`;
      // Below a root of the container's own, its path is longer.
      if (!/\/pts\/\d+$/.test(await readlink(terminal))) continue;
      spawn("stty", ["-F", terminal, "cols", String(columns), "rows", String(rows)], { stdio: "ignore" }).on("error", () => {});
    }
  } catch {
    // It has ended, or the size is nonsense.
  }
}

function message(channel: number, data: Uint8Array): Buffer {
  return Buffer.concat([Buffer.from([channel]), data]);
}

function failure(text: string, exitCode: number): Status {
  return {
    kind: "Status",
    apiVersion: "v1",
    metadata: {},
    status: "Failure",
    message: text,
    reason: "NonZeroExitCode",
    details: { causes: [{ reason: "ExitCode", message: String(exitCode) }] },
  } as Status;
}

function quote(word: string): string {
  return `'${word.replaceAll("'", "'\\''")}'`;
}
