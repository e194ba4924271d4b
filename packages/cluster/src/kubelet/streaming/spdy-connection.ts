import { Duplex } from "node:stream";
import { controlFrame, dataFrame, finFlag, frameTypes, type SpdyFrame, SpdyFrameReader, words } from "./spdy-frames.ts";
import { SpdyHeaderCodec, type SpdyHeaders } from "./spdy-headers.ts";
import { StreamError } from "./stream-error.ts";

/** Status codes of RST_STREAM (SPDY protocol draft 3.1, section 2.6.3). */
const statuses = { invalidStream: 2, refusedStream: 3, cancel: 5 } as const;
/** Far more than kubectl opens on one connection. */
const maxStreams = 1000;
/** Bytes that a connection buffers for slow readers, over all its streams, before it stops reading. */
const maxUnreadBytes = 8 * 1024 * 1024;
const nothing = Buffer.alloc(0);

/** A stream of a {@link SpdyConnection}. Its halves end independently; destroying it resets it. */
export class SpdyStream extends Duplex {
  readonly headers: SpdyHeaders;
  readonly #id: number;
  readonly #link: SpdyLink;

  constructor(id: number, headers: SpdyHeaders, link: SpdyLink) {
    super({ allowHalfOpen: true });
    this.headers = headers;
    this.#id = id;
    this.#link = link;
    // Readers and writers see errors through their own operations; a reset also emits `close`.
    this.on("error", () => {});
  }

  override _read(): void {
    this.#link.onRead();
  }

  override _write(chunk: Buffer, _encoding: BufferEncoding, done: (error?: Error | null) => void): void {
    this.#link.send(dataFrame(this.#id, 0, chunk), done);
  }

  override _final(done: (error?: Error | null) => void): void {
    this.#link.send(dataFrame(this.#id, finFlag, nothing), done);
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    this.#link.onDestroy(this.#id, this.readableEnded && this.writableFinished);
    this.#link.onRead();
    done(error);
  }
}

/** The part of a connection that its streams use. */
interface SpdyLink {
  /** Calls `done` when the peer accepts more. */
  send(frame: Buffer, done: (error?: Error | null) => void): void;
  /** The stream has room for more data. */
  onRead(): void;
  onDestroy(id: number, isFinished: boolean): void;
}

/**
 * One end of a SPDY/3.1 connection, reduced to Kubernetes' streaming: the client opens streams, each is accepted immediately, and
 * pings are answered. kubectl has no flow control (moby/spdystream ignores WINDOW_UPDATE), so only the transport can hold back a
 * sender. Up to 8 MiB are buffered for slow readers, so that they do not block the other streams; beyond that, all streams wait.
 */
export class SpdyConnection {
  readonly #transport: Duplex;
  /** Absent at the client's end. */
  readonly #onStream: ((stream: SpdyStream) => void) | undefined;
  readonly #codec = new SpdyHeaderCodec();
  readonly #reader = new SpdyFrameReader();
  readonly #streams = new Map<number, SpdyStream>();
  #opening: Promise<unknown> = Promise.resolve();
  #onRoom: (() => void) | undefined;
  #last = 0;
  /** Resolves when the connection has closed, for whatever reason. */
  readonly closed: Promise<void>;

  /** With `onStream` this is the server's end, and `onStream` receives each stream; without it this is the client's end. */
  constructor(transport: Duplex, onStream?: (stream: SpdyStream) => void) {
    this.#transport = transport;
    this.#onStream = onStream;
    transport.on("error", () => transport.destroy());
    this.closed = this.#run();
  }

  /** Opens a stream, at the client's end only. */
  async open(headers: SpdyHeaders): Promise<SpdyStream> {
    // Header blocks form one compressed stream, and stream ids must ascend, so opens are serialized.
    const opened = this.#opening.then(async () => {
      const block = await this.#codec.encode(headers);
      const id = this.#last === 0 ? 1 : this.#last + 2;
      this.#last = id;
      const stream = this.#add(id, headers);
      this.#send(controlFrame(frameTypes.synStream, 0, Buffer.concat([words(id, 0), Buffer.alloc(2), block])));
      return stream;
    });
    this.#opening = opened.catch(() => {});
    return opened;
  }

  /** Closes the connection after everything written has been sent. */
  close(): void {
    this.#transport.end(controlFrame(frameTypes.goAway, 0, words(this.#last, 0)));
  }

  async #run(): Promise<void> {
    try {
      for await (const chunk of this.#transport) {
        for (const frame of this.#reader.push(chunk as Buffer)) await this.#handle(frame);
        while (this.#unreadBytes() > maxUnreadBytes && !this.#transport.destroyed) {
          await new Promise<void>((resolve) => {
            this.#onRoom = resolve;
            this.#transport.once("close", resolve);
          });
        }
      }
    } catch {
      // The peer disconnected or violated the protocol; it cannot be notified.
      this.#transport.destroy();
    } finally {
      for (const stream of this.#streams.values()) stream.destroy(new StreamError("Closed", "connection closed"));
      this.#codec.close();
    }
  }

  #unreadBytes(): number {
    let bytes = 0;
    for (const stream of this.#streams.values()) bytes += stream.readableLength;
    return bytes;
  }

  #send(frame: Buffer, done: (error?: Error | null) => void = () => {}): void {
    if (this.#transport.destroyed || this.#transport.writableEnded) done(new StreamError("Closed", "connection closed"));
    else this.#transport.write(frame, done);
  }

  #reset(id: number, status: number): void {
    this.#send(controlFrame(frameTypes.rstStream, 0, words(id, status)));
  }

  async #handle(frame: SpdyFrame): Promise<void> {
    if (frame.kind === "data") {
      const stream = this.#streams.get(frame.stream);
      if (stream === undefined) {
        if (frame.stream > this.#last) this.#reset(frame.stream, statuses.invalidStream);
        return;
      }
      if (frame.payload.length > 0) stream.push(frame.payload);
      if ((frame.flags & finFlag) !== 0) stream.push(null);
      return;
    }
    switch (frame.type) {
      case frameTypes.synStream:
        return this.#accept(frame.payload, (frame.flags & finFlag) !== 0);
      case frameTypes.synReply:
      case frameTypes.headers:
        // The content is ignored, but decoding keeps the compression state in sync.
        await this.#codec.decode(frame.payload.subarray(4));
        return;
      case frameTypes.rstStream: {
        const id = frame.payload.readUInt32BE(0);
        const stream = this.#streams.get(id);
        // Removed first, so that the reset is not answered with another one.
        this.#streams.delete(id);
        stream?.destroy(new StreamError("Reset", "stream was reset by the peer"));
        return;
      }
      case frameTypes.ping:
        // Clients use odd ids and servers even ones; a ping with our own parity is a reply.
        if (frame.payload.readUInt32BE(0) % 2 === (this.#onStream === undefined ? 0 : 1))
          this.#send(controlFrame(frameTypes.ping, 0, frame.payload));
        return;
    }
  }

  async #accept(payload: Buffer, isEnded: boolean): Promise<void> {
    const id = payload.readUInt32BE(0) & 0x7fffffff;
    const headers = await this.#codec.decode(payload.subarray(10));
    if (id % 2 !== 1 || id <= this.#last) throw new StreamError("Protocol", `invalid stream id ${id}`);
    this.#last = id;
    if (this.#onStream === undefined || this.#streams.size >= maxStreams) {
      this.#reset(id, statuses.refusedStream);
      return;
    }
    const stream = this.#add(id, headers);
    const reply = Buffer.concat([words(id), await this.#codec.encode({})]);
    this.#send(controlFrame(frameTypes.synReply, 0, reply));
    if (isEnded) stream.push(null);
    this.#onStream(stream);
  }

  #add(id: number, headers: SpdyHeaders): SpdyStream {
    const stream = new SpdyStream(id, headers, {
      send: (frame, done) => this.#send(frame, done),
      onRead: () => this.#onRoom?.(),
      onDestroy: (which, isFinished) => {
        if (this.#streams.delete(which) && !isFinished) this.#reset(which, statuses.cancel);
      },
    });
    this.#streams.set(id, stream);
    return stream;
  }
}
