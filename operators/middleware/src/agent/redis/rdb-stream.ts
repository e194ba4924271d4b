import type { Socket } from "node:net";
import { AgentError } from "@keelson/middleware-agent";
import type { Clock } from "@keelson/api-machinery/time";
import { openSocket, type RedisTls } from "./redis-tls.ts";
import { encodeCommand } from "./resp-client.ts";

/** A server sends a newline every second while it prepares a snapshot. */
const idleTimeoutMs = 60_000;
const connectTimeoutMs = 10_000;
const maxLineLength = 1_024;

/** Address and credentials of the server to read from. */
export interface RdbSource {
  readonly host: string;
  readonly port: number;
  readonly password: string;
  /** Undefined: without TLS. */
  readonly tls?: RedisTls | undefined;
  readonly clock: Clock;
}

/**
 * Streams the data of a server in RDB format, as its replication protocol sends it to a new replica. The server forks, so it continues to
 * serve, and needs no space on its volume if `repl-diskless-sync` is on.
 *
 * **Errors**: an {@link AgentError} with code `SnapshotFailed`.
 */
export async function* streamRdb({ host, port, password, tls, clock }: RdbSource): AsyncGenerator<Buffer> {
  const socket = await openSocket({ host, port, tls }, connectTimeoutMs, clock).catch((error: Error) => {
    throw new AgentError("SnapshotFailed", `${host}: ${error.message}`, { cause: error });
  });
  socket.setTimeout(idleTimeoutMs, () => socket.destroy(new Error(`no data for ${idleTimeoutMs} ms`)));
  try {
    const reader = new SocketReader(socket);
    // One by one: a server refuses PSYNC while it has replies to send.
    for (const command of [
      ["AUTH", password],
      ["REPLCONF", "capa", "eof"],
    ]) {
      socket.write(encodeCommand(command));
      await readReply(reader);
    }
    socket.write(encodeCommand(["PSYNC", "?", "-1"]));
    yield* payload(reader);
  } catch (error) {
    if (error instanceof AgentError) throw error;
    throw failed(`${host}:${port}: ${(error as Error).message}`, error);
  } finally {
    socket.destroy();
  }
}

const failed = (message: string, cause?: unknown): AgentError => new AgentError("SnapshotFailed", message, { cause });

async function* payload(reader: SocketReader): AsyncGenerator<Buffer> {
  const header = await readHeader(reader);
  const mark = /^\$EOF:(.{40})$/.exec(header)?.[1];
  if (mark !== undefined) {
    yield* untilMark(reader, Buffer.from(mark));
    return;
  }
  let left = Number(/^\$(\d+)$/.exec(header)?.[1] ?? Number.NaN);
  if (Number.isNaN(left)) throw failed(`unexpected reply ${JSON.stringify(header.slice(0, 100))}`);
  while (left > 0) {
    const chunk = await reader.read();
    const part = chunk.subarray(0, left);
    left -= part.length;
    yield part;
  }
}

/** Reads one line. Rejects if it is an error. */
async function readReply(reader: SocketReader): Promise<string> {
  const line = await reader.line();
  if (line.startsWith("-")) throw failed(`the server refused a snapshot: ${line.slice(1)}`);
  return line;
}

/** Resolves to the line that announces the data. Before it there are the reply to PSYNC and empty lines. */
async function readHeader(reader: SocketReader): Promise<string> {
  for (;;) {
    const line = await readReply(reader);
    if (line.startsWith("$")) return line;
  }
}

/** Yields everything before the mark. The server sends nothing after it until the replica acknowledges. */
async function* untilMark(reader: SocketReader, mark: Buffer): AsyncGenerator<Buffer> {
  let held = Buffer.alloc(0);
  for (;;) {
    const data = Buffer.concat([held, await reader.read()]);
    const rest = Math.max(data.length - mark.length, 0);
    if (rest > 0) yield data.subarray(0, rest);
    held = data.subarray(rest);
    if (held.equals(mark)) return;
  }
}

/** Reads lines, then bytes, from a socket. A chunk is read only when it is needed, so the sender is slowed down. */
class SocketReader {
  readonly #chunks: AsyncIterator<Buffer>;
  #buffer: Buffer = Buffer.alloc(0);

  constructor(socket: Socket) {
    this.#chunks = socket[Symbol.asyncIterator]() as AsyncIterator<Buffer>;
  }

  /** The next chunk. Rejects at the end of the connection. */
  async read(): Promise<Buffer> {
    if (this.#buffer.length > 0) {
      const chunk = this.#buffer;
      this.#buffer = Buffer.alloc(0);
      return chunk;
    }
    const next = await this.#chunks.next();
    if (next.done === true) throw failed("the server closed the connection");
    return next.value;
  }

  async line(): Promise<string> {
    for (;;) {
      const end = this.#buffer.indexOf("\n");
      if (end >= 0) {
        const line = this.#buffer.toString("latin1", 0, end).trim();
        this.#buffer = this.#buffer.subarray(end + 1);
        return line;
      }
      if (this.#buffer.length > maxLineLength) throw failed("unexpected reply without an end of line");
      const held = this.#buffer;
      this.#buffer = Buffer.alloc(0);
      this.#buffer = Buffer.concat([held, await this.read()]);
    }
  }
}
