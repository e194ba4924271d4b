import { Duplex } from "node:stream";
import { controlFrame, dataFrame, finFlag, frameTypes, type SpdyFrame, SpdyFrameReader, words } from "./spdy-frames.ts";
import { SpdyHeaderCodec, type SpdyHeaders } from "./spdy-headers.ts";

/** Status codes of RST_STREAM (SPDY protocol draft 3.1, section 2.6.3). */
const statuses = { invalidStream: 2, refusedStream: 3, cancel: 5 } as const;
/** More than kubectl opens in years of use. */
const mostStreams = 1000;
/** How much of all its streams a connection keeps for slow readers before it takes no more. */
const mostUnreadBytes = 8 * 1024 * 1024;
const nothing = Buffer.alloc(0);

/** One stream of a {@link SpdyConnection}: both its halves end by themselves; destroying it resets it. */
export class SpdyStream extends Duplex {
  readonly headers: SpdyHeaders;
  readonly #id: number;
  readonly #link: SpdyLink;

  constructor(id: number, headers: SpdyHeaders, link: SpdyLink) {
    super({ allowHalfOpen: true });
    this.headers = headers;
    this.#id = id;
    this.#link = link;
    // A reset is told by `close`; what a reader or writer was about, by its own error.
    this.on("error", () => {});
  }

  override _read(): void {
    this.#link.wants();
  }

  override _write(chunk: Buffer, _encoding: BufferEncoding, done: (error?: Error | null) => void): void {
    this.#link.send(dataFrame(this.#id, 0, chunk), done);
  }

  override _final(done: (error?: Error | null) => void): void {
    this.#link.send(dataFrame(this.#id, finFlag, nothing), done);
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    this.#link.gone(this.#id, this.readableEnded && this.writableFinished);
    this.#link.wants();
    done(error);
  }
}

/** What a stream needs of its connection. */
interface SpdyLink {
  /** Calls back when the peer takes more. */
  send(frame: Buffer, done: (error?: Error | null) => void): void;
  /** There is room for more. */
  wants(): void;
  gone(id: number, isOver: boolean): void;
}

/**
 * One end of SPDY/3.1 on a connection, as much as Kubernetes' streaming needs: the client opens streams, each is answered at
 * once, pings are answered. kubectl's end knows no windows (moby/spdystream leaves WINDOW_UPDATE out), so a sender can be held
 * back by the transport alone: up to 8 MiB are kept for streams that are read slowly, so that they do not hold back the others of
 * their connection; beyond that, all wait.
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
  /** Resolves when the connection is over, whatever ended it. */
  readonly closed: Promise<void>;

  /** At the server's end `onStream` gets each stream that the client opens; without it this is the client's end. */
  constructor(transport: Duplex, onStream?: (stream: SpdyStream) => void) {
    this.#transport = transport;
    this.#onStream = onStream;
    transport.on("error", () => transport.destroy());
    this.closed = this.#run();
  }

  /** Opens a stream, at the client's end. */
  async open(headers: SpdyHeaders): Promise<SpdyStream> {
    // Blocks of headers are one compressed stream, and numbers of streams grow.
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

  /** Ends the connection when all that was sent is on its way. */
  close(): void {
    this.#transport.end(controlFrame(frameTypes.goAway, 0, words(this.#last, 0)));
  }

  async #run(): Promise<void> {
    try {
      for await (const chunk of this.#transport) {
        for (const frame of this.#reader.take(chunk as Buffer)) await this.#handle(frame);
        while (this.#unreadBytes() > mostUnreadBytes && !this.#transport.destroyed) {
          await new Promise<void>((resolve) => {
            this.#onRoom = resolve;
            this.#transport.once("close", resolve);
          });
        }
      }
    } catch {
      // A peer that breaks off or speaks nonsense: there is nobody left to tell.
      this.#transport.destroy();
    } finally {
      for (const stream of this.#streams.values()) stream.destroy(new Error("the connection is over"));
      this.#codec.close();
    }
  }

  #unreadBytes(): number {
    let bytes = 0;
    for (const stream of this.#streams.values()) bytes += stream.readableLength;
    return bytes;
  }

  #send(frame: Buffer, done: (error?: Error | null) => void = () => {}): void {
    if (this.#transport.destroyed || this.#transport.writableEnded) done(new Error("the connection is over"));
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
        // Nothing is made of them, but the compression goes on with them.
        await this.#codec.decode(frame.payload.subarray(4));
        return;
      case frameTypes.rstStream: {
        const id = frame.payload.readUInt32BE(0);
        const stream = this.#streams.get(id);
        // First forgotten: a reset is not answered by another one.
        this.#streams.delete(id);
        stream?.destroy(new Error("the stream was reset"));
        return;
      }
      case frameTypes.ping:
        // Pings of clients have odd numbers, those of servers even ones; another one would be an answer.
        if (frame.payload.readUInt32BE(0) % 2 === (this.#onStream === undefined ? 0 : 1))
          this.#send(controlFrame(frameTypes.ping, 0, frame.payload));
        return;
    }
  }

  async #accept(payload: Buffer, isEnded: boolean): Promise<void> {
    const id = payload.readUInt32BE(0) & 0x7fffffff;
    const headers = await this.#codec.decode(payload.subarray(10));
    if (id % 2 !== 1 || id <= this.#last) throw new RangeError(`a stream cannot have the number ${id}`);
    this.#last = id;
    if (this.#onStream === undefined || this.#streams.size >= mostStreams) {
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
      wants: () => this.#onRoom?.(),
      gone: (which, isOver) => {
        if (this.#streams.delete(which) && !isOver) this.#reset(which, statuses.cancel);
      },
    });
    this.#streams.set(id, stream);
    return stream;
  }
}
