import { type ClientHttp2Session, connect } from "node:http2";

/** Bytes before each message: a flag and the length (gRPC over HTTP/2, "Length-Prefixed-Message"). */
const prefixBytes = 5;

/** A connection to etcd that encodes and decodes only what a benchmark needs, so that it measures etcd and not its own client. */
export class GrpcConnection {
  readonly #session: ClientHttp2Session;

  constructor(url: string) {
    this.#session = connect(url);
    this.#session.on("error", () => undefined);
  }

  /** Calls a unary method. Returns the size of the response. */
  call(method: string, message: Buffer): Promise<number> {
    return new Promise((resolve, reject) => {
      const stream = this.#stream(method);
      let bytes = 0;
      let status = "";
      stream.on("data", (data: Buffer) => {
        bytes += data.length;
      });
      stream.on("trailers", (headers) => {
        status = String(headers["grpc-status"]);
      });
      stream.on("error", reject);
      stream.on("end", () => (status === "0" ? resolve(bytes) : reject(new Error(`${method}: gRPC status ${status}`))));
      stream.end(frame(message));
    });
  }

  /** Opens a watch and calls `onEvents` with the number of events in each message. Resolves once it is created. */
  watch(message: Buffer, onEvents: (count: number) => void): Promise<void> {
    return new Promise((resolve, reject) => {
      const stream = this.#stream("/etcdserverpb.Watch/Watch");
      let rest: Buffer = Buffer.alloc(0);
      stream.on("error", reject);
      stream.on("data", (data: Buffer) => {
        rest = rest.length === 0 ? data : Buffer.concat([rest, data]);
        let at = 0;
        for (;;) {
          if (rest.length - at < prefixBytes) break;
          const end = at + prefixBytes + rest.readUInt32BE(at + 1);
          if (end > rest.length) break;
          resolve();
          const count = countEvents(rest.subarray(at + prefixBytes, end));
          if (count > 0) onEvents(count);
          at = end;
        }
        rest = rest.subarray(at);
      });
      stream.write(frame(message));
    });
  }

  close(): void {
    this.#session.destroy();
  }

  #stream(path: string): ReturnType<ClientHttp2Session["request"]> {
    return this.#session.request({ ":method": "POST", ":path": path, "content-type": "application/grpc", te: "trailers" });
  }
}

/** A length-delimited protobuf field. */
export function bytesField(number: number, value: Buffer): Buffer {
  return Buffer.concat([varint(number * 8 + 2), varint(value.length), value]);
}

/** Field number of `events` in etcd's WatchResponse. */
const eventsField = 11;

function countEvents(message: Buffer): number {
  let at = 0;
  let count = 0;
  const read = (): number => {
    let value = 0;
    for (let scale = 1; ; scale *= 128) {
      const byte = message[at++] ?? 0;
      value += (byte % 128) * scale;
      if (byte < 128) return value;
    }
  };
  while (at < message.length) {
    const tag = read();
    if (Math.floor(tag / 8) === eventsField) count += 1;
    const value = read();
    if (tag % 8 === 2) at += value;
  }
  return count;
}

function frame(message: Buffer): Buffer {
  const prefix = Buffer.alloc(prefixBytes);
  prefix.writeUInt32BE(message.length, 1);
  return Buffer.concat([prefix, message]);
}

function varint(value: number): Buffer {
  const bytes: number[] = [];
  let left = value;
  for (; left >= 128; left = Math.floor(left / 128)) bytes.push((left % 128) + 128);
  return Buffer.from([...bytes, left]);
}
