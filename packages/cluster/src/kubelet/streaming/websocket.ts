import { createHash } from "node:crypto";
import type { Duplex } from "node:stream";

/** The server's end of a WebSocket (RFC 6455), reduced to what Kubernetes' streaming needs. */
export interface WebSocketEnd {
  /** Returns false if the peer is slow: wait for `drained`. */
  send(message: Uint8Array): boolean;
  /** Like {@link send}, as a text message. */
  sendText(message: string): boolean;
  drained(): Promise<void>;
  close(code: number, reason?: string): void;
  /** Pauses and resumes reading, to bound memory with a slow reader. */
  pause(): void;
  resume(): void;
}

/** What a client requested in its handshake. Without a protocol, none is agreed on. */
export interface WebSocketHandshake {
  readonly key: string;
  readonly protocol?: string;
}

/** Events of a WebSocket. `closed` is called once, last. */
export interface WebSocketEvents {
  message(data: Buffer): void;
  closed(): void;
}

const magic = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
/** The maximum message size; kubectl sends at most 32 KiB. */
const maxMessageBytes = 1024 * 1024;
const opcodes = { continuation: 0, text: 1, binary: 2, close: 8, ping: 9, pong: 10 } as const;

/** The key of a handshake request; `undefined` if the request is not a handshake. */
export function handshakeKey(headers: Readonly<Record<string, string | string[] | undefined>>): string | undefined {
  const key = headers["sec-websocket-key"];
  const isHandshake =
    String(headers["upgrade"] ?? "").toLowerCase() === "websocket" && headers["sec-websocket-version"] === "13";
  return isHandshake && typeof key === "string" && Buffer.from(key, "base64").length === 16 ? key : undefined;
}

/** Completes a handshake. `head` contains bytes received after the request. */
export function acceptWebSocket(
  socket: Duplex,
  head: Buffer,
  handshake: WebSocketHandshake,
  events: WebSocketEvents,
): WebSocketEnd {
  const accept = createHash("sha1")
    .update(handshake.key + magic)
    .digest("base64");
  const protocol = handshake.protocol === undefined ? "" : `Sec-WebSocket-Protocol: ${handshake.protocol}\r\n`;
  socket.write(
    `HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ${accept}\r\n` +
      `${protocol}\r\n`,
  );
  const reader = new FrameReader();
  let isClosing = false;
  let isClosed = false;

  const frame = (opcode: number, payload: Uint8Array): boolean => {
    if (socket.destroyed || socket.writableEnded) return true;
    const header =
      payload.length < 126
        ? Buffer.from([0x80 | opcode, payload.length])
        : payload.length < 65_536
          ? Buffer.from([0x80 | opcode, 126, payload.length >> 8, payload.length & 0xff])
          : Buffer.concat([Buffer.from([0x80 | opcode, 127]), bigLength(payload.length)]);
    socket.write(header);
    return socket.write(payload);
  };
  const close = (code: number, reason = ""): void => {
    if (isClosing) return;
    isClosing = true;
    frame(opcodes.close, Buffer.concat([Buffer.from([code >> 8, code & 0xff]), Buffer.from(reason.slice(0, 100))]));
    socket.end();
  };
  const finished = (): void => {
    if (isClosed) return;
    isClosed = true;
    events.closed();
  };
  const onData = (bytes: Buffer): void => {
    for (const result of reader.push(bytes)) {
      if (isClosing) return;
      if (result === "broken") close(1002, "protocol error");
      else if (result === "too-long") close(1009, "message too long");
      else if (result.opcode === opcodes.ping) frame(opcodes.pong, result.payload);
      else if (result.opcode === opcodes.close) close(1000);
      else if (result.opcode === opcodes.binary || result.opcode === opcodes.text) events.message(result.payload);
    }
  };
  socket.on("data", onData);
  socket.on("end", () => socket.end());
  socket.on("error", () => socket.destroy());
  socket.on("close", finished);
  if (head.length > 0) onData(head);
  return {
    send: (message) => frame(opcodes.binary, message),
    sendText: (message) => frame(opcodes.text, Buffer.from(message)),
    drained: () =>
      new Promise((resolve) => {
        const done = (): void => {
          socket.off("drain", done);
          socket.off("close", done);
          resolve();
        };
        socket.on("drain", done);
        socket.on("close", done);
      }),
    close,
    pause: () => void socket.pause(),
    resume: () => void socket.resume(),
  };
}

function bigLength(length: number): Buffer {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64BE(BigInt(length));
  return bytes;
}

interface Message {
  readonly opcode: number;
  readonly payload: Buffer;
}

/** Reassembles messages from a client's frames, which are masked and may be fragments. */
export class FrameReader {
  #buffer: Buffer = Buffer.alloc(0);
  #parts: Buffer[] = [];
  #partsBytes = 0;
  #opcode = 0;

  *push(bytes: Buffer): Generator<Message | "broken" | "too-long"> {
    this.#buffer = this.#buffer.length === 0 ? bytes : Buffer.concat([this.#buffer, bytes]);
    for (;;) {
      const frame = this.#frame();
      if (frame === undefined) return;
      if (typeof frame === "string") {
        yield frame;
        return;
      }
      if (frame.opcode >= opcodes.close) {
        yield frame;
        continue;
      }
      const isFirst = this.#opcode === 0;
      if (isFirst === (frame.opcode === opcodes.continuation)) {
        yield "broken";
        return;
      }
      if (isFirst) this.#opcode = frame.opcode;
      this.#parts.push(frame.payload);
      this.#partsBytes += frame.payload.length;
      if (this.#partsBytes > maxMessageBytes) {
        yield "too-long";
        return;
      }
      if (!frame.isLast) continue;
      const message = { opcode: this.#opcode, payload: Buffer.concat(this.#parts) };
      this.#opcode = 0;
      this.#parts = [];
      this.#partsBytes = 0;
      yield message;
    }
  }

  #frame(): (Message & { readonly isLast: boolean }) | "broken" | "too-long" | undefined {
    const buffer = this.#buffer;
    if (buffer.length < 2) return undefined;
    const [first = 0, second = 0] = buffer;
    const opcode = first & 0x0f;
    const isLast = (first & 0x80) !== 0;
    // Clients must mask, must not use extensions, and must not fragment control frames.
    if ((second & 0x80) === 0 || (first & 0x70) !== 0 || (opcode >= opcodes.close && !isLast)) return "broken";
    let length = second & 0x7f;
    let at = 2;
    if (length === 126) {
      if (buffer.length < 4) return undefined;
      length = buffer.readUInt16BE(2);
      at = 4;
    } else if (length === 127) {
      if (buffer.length < 10) return undefined;
      const long = buffer.readBigUInt64BE(2);
      if (long > BigInt(maxMessageBytes)) return "too-long";
      length = Number(long);
      at = 10;
    }
    if (opcode >= opcodes.close && length > 125) return "broken";
    if (buffer.length < at + 4 + length) return undefined;
    const mask = buffer.subarray(at, at + 4);
    const payload = Buffer.from(buffer.subarray(at + 4, at + 4 + length));
    for (let index = 0; index < payload.length; index++) payload[index] = (payload[index] ?? 0) ^ (mask[index & 3] ?? 0);
    this.#buffer = buffer.subarray(at + 4 + length);
    return { opcode, payload, isLast };
  }
}
