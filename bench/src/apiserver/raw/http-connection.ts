import { connect, type ConnectionOptions, type TLSSocket } from "node:tls";
import { once } from "node:events";

/** An HTTPS server and the credentials of a client. */
export interface HttpTarget {
  readonly port: number;
  readonly tls: Pick<ConnectionOptions, "ca" | "cert" | "key" | "rejectUnauthorized">;
  /** Bearer token, if the client has no certificate. */
  readonly token?: string;
}

/** A response whose body was counted, not kept. */
export interface HttpResponse {
  readonly status: number;
  readonly bodyBytes: number;
}

const lineFeed = 0x0a;
const closingBrace = 0x7d;
const headEnd = Buffer.from("\r\n\r\n");
const lastChunk = "\r\n0\r\n\r\n";

/**
 * A keep-alive connection with one request at a time. It parses no more than it has to, so that a benchmark measures the server and not
 * its own client.
 */
export class HttpConnection {
  readonly #socket: TLSSocket;
  readonly #headers: string;
  #receive: (data: Buffer) => void = () => undefined;

  private constructor(socket: TLSSocket, { token }: HttpTarget) {
    this.#socket = socket;
    const authorization = token === undefined ? "" : `authorization: Bearer ${token}\r\n`;
    this.#headers = `host: localhost\r\naccept: application/json\r\nuser-agent: bench\r\n${authorization}`;
    // A failure closes the socket, which rejects the request in progress.
    socket.on("error", () => undefined);
    socket.on("data", (data: Buffer) => this.#receive(data));
  }

  static async open(target: HttpTarget): Promise<HttpConnection> {
    const socket = connect({ host: "127.0.0.1", port: target.port, ...target.tls, checkServerIdentity: () => undefined });
    socket.setNoDelay(true);
    await once(socket, "secureConnect");
    return new HttpConnection(socket, target);
  }

  /** Sends a request and counts the body of the response. Rejects for a status of 400 or more. */
  request(method: string, path: string, body = ""): Promise<HttpResponse> {
    return new Promise((resolve, reject) => {
      const counter = new ResponseCounter();
      this.#socket.once("close", () => reject(new Error("the connection was closed")));
      this.#receive = (data) => {
        const response = counter.take(data);
        if (response === undefined) return;
        this.#socket.removeAllListeners("close");
        if (response.status < 400) resolve(response);
        else reject(new Error(`${method} ${path}: status ${response.status}`));
      };
      this.#send(method, path, body);
    });
  }

  /**
   * Opens a watch and calls `onEvents` with the number of events in each read. Resolves when the response begins. Rejects for a status
   * other than 200, or if the connection closes before.
   */
  watch(path: string, onEvents: (count: number) => void): Promise<void> {
    return new Promise((resolve, reject) => {
      let last = 0;
      let isOpen = false;
      const onClose = (): void => reject(new Error("the connection was closed"));
      this.#socket.once("close", onClose);
      this.#receive = (data) => {
        if (!isOpen) {
          const status = Number(data.toString("latin1", 9, 12));
          this.#socket.off("close", onClose);
          if (status !== 200) {
            this.#receive = () => undefined;
            reject(new Error(`GET ${path}: status ${status}`));
            return;
          }
          isOpen = true;
          resolve();
        }
        let count = 0;
        for (let at = data.indexOf(lineFeed); at >= 0; at = data.indexOf(lineFeed, at + 1)) {
          if ((at === 0 ? last : data[at - 1]) === closingBrace) count += 1;
        }
        last = data.at(-1) ?? last;
        if (count > 0) onEvents(count);
      };
      this.#send("GET", path, "");
    });
  }

  close(): void {
    this.#socket.removeAllListeners("close");
    this.#socket.destroy();
  }

  #send(method: string, path: string, body: string): void {
    const length = Buffer.byteLength(body);
    const type = length === 0 ? "" : `content-type: application/json\r\ncontent-length: ${length}\r\n`;
    this.#socket.write(`${method} ${path} HTTP/1.1\r\n${this.#headers}${type}\r\n${body}`);
  }
}

/** Finds the end of a response, by its length or its last chunk. */
class ResponseCounter {
  #head: Buffer = Buffer.alloc(0);
  #status = 0;
  #bodyBytes = 0;
  /** Undefined for a chunked body. */
  #length: number | undefined;
  #tail = "";

  /** Returns the response once it is complete. */
  take(data: Buffer): HttpResponse | undefined {
    const body = this.#status === 0 ? this.#takeHead(data) : data;
    if (body === undefined) return undefined;
    this.#bodyBytes += body.length;
    if (this.#length === undefined)
      this.#tail = (this.#tail + body.toString("latin1", body.length - lastChunk.length)).slice(-lastChunk.length);
    const isComplete = this.#length === undefined ? this.#tail === lastChunk : this.#bodyBytes >= this.#length;
    return isComplete ? { status: this.#status, bodyBytes: this.#bodyBytes } : undefined;
  }

  /** Returns the part of the body after the head, or undefined if the head is incomplete. */
  #takeHead(data: Buffer): Buffer | undefined {
    this.#head = this.#head.length === 0 ? data : Buffer.concat([this.#head, data]);
    const end = this.#head.indexOf(headEnd);
    if (end < 0) return undefined;
    const text = this.#head.toString("latin1", 0, end);
    this.#status = Number(text.slice(9, 12));
    const length = /^content-length: *(\d+)/im.exec(text)?.[1];
    this.#length = length === undefined ? undefined : Number(length);
    return this.#head.subarray(end + headEnd.length);
  }
}
