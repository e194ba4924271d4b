import { isStatusError } from "@keelson/api-machinery";
import type { ApiRequest, WatchStream } from "@keelson/api-machinery/transport";
import { once } from "node:events";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import type { FakeApiServer } from "./fake-api-server.ts";

/** Serves a {@link FakeApiServer} over HTTP, with faults of the connection. */
export class HttpApiServer {
  readonly #api: FakeApiServer;
  readonly #sockets = new Set<Socket>();
  readonly #watches = new Set<ServerResponse>();
  #server: Server | undefined;
  #port = 0;
  #isMute = false;

  constructor(api: FakeApiServer) {
    this.#api = api;
  }

  get url(): string {
    return `http://127.0.0.1:${this.#port}`;
  }

  get openSockets(): number {
    return this.#sockets.size;
  }

  get openWatches(): number {
    return this.#watches.size;
  }

  /** Listens, on the same port as before after a restart. */
  async start(): Promise<void> {
    const server = createServer((request, response) => {
      this.#serve(request, response).catch(() => response.destroy());
    });
    server.on("connection", (socket) => {
      this.#sockets.add(socket);
      socket.once("close", () => this.#sockets.delete(socket));
    });
    server.listen(this.#port, "127.0.0.1");
    await once(server, "listening");
    this.#server = server;
    this.#port = (server.address() as AddressInfo).port;
  }

  /** Stops like a killed server: closes every connection immediately. */
  async stop(): Promise<void> {
    const server = this.#server;
    this.#server = undefined;
    if (server === undefined) return;
    const closed = once(server, "close");
    server.close();
    server.closeAllConnections();
    await closed;
  }

  /** Sends the beginning of an event to every watch, then cuts the connection. */
  cutWithinLine(): void {
    for (const response of this.#watches) {
      response.write('{"type":"MODIFIED","object":{"metadata":{"na', () => response.destroy());
    }
  }

  /** Open watches receive nothing any more, without an end: the connection is half open. */
  silence(): void {
    this.#isMute = true;
    this.#watches.clear();
  }

  async #serve(message: IncomingMessage, response: ServerResponse): Promise<void> {
    const url = new URL(message.url ?? "/", this.url);
    const request: ApiRequest = {
      method: (message.method ?? "GET") as ApiRequest["method"],
      path: url.pathname,
      query: Object.fromEntries(url.searchParams),
      headers: { "content-type": message.headers["content-type"] ?? "" },
      body: await bodyOf(message),
    };
    if (url.searchParams.get("watch") === "true") {
      let watch: WatchStream;
      try {
        watch = await this.#api.watch(request);
      } catch (error) {
        if (!isStatusError(error)) throw error;
        response.writeHead(error.status.code ?? 500, { "content-type": "application/json" });
        response.end(JSON.stringify(error.status));
        return;
      }
      await this.#send(watch, response);
      return;
    }
    const { status, headers, body } = await this.#api.request(request);
    response.writeHead(status, { ...headers, "content-type": "application/json" });
    response.end(JSON.stringify(body));
  }

  async #send(watch: WatchStream, response: ServerResponse): Promise<void> {
    this.#isMute = false;
    this.#watches.add(response);
    response.once("close", () => {
      watch.close();
      this.#watches.delete(response);
    });
    response.writeHead(200, { "content-type": "application/json" });
    response.flushHeaders();
    for await (const event of watch) {
      if (this.#watches.has(response) && !this.#isMute) response.write(`${JSON.stringify(event)}\n`);
    }
    if (this.#watches.has(response)) response.end();
  }
}

async function bodyOf(message: IncomingMessage): Promise<unknown> {
  let text = "";
  for await (const chunk of message.setEncoding("utf8")) text += chunk as string;
  return text === "" ? undefined : (JSON.parse(text) as unknown);
}
