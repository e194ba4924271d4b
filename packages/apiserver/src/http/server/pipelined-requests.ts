import type { IncomingMessage, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import type { Duplex } from "node:stream";

/** A connection with more requests behind the one in progress is closed. Clients that wait for responses have none. */
const maxWaiting = 128;

/**
 * Serves the requests of each connection one after the other. Node's parser emits all requests of a read in one turn of the event loop, up
 * to 2,000; each request after the first waits for the response before it and begins in its own turn.
 */
export class PipelinedRequests {
  /** By connection with a request in progress: its last request, and what waits for the response in progress. */
  readonly #connections = new Map<Duplex, { last: IncomingMessage; readonly waiting: (() => void)[] }>();

  /** Calls `serve` now, or when the connection's earlier responses are complete. Not at all if it closes before. */
  add(request: IncomingMessage, response: ServerResponse, serve: () => void): void {
    const { socket } = request;
    if (socket.destroyed) return;
    const connection = this.#connections.get(socket);
    if (connection !== undefined && connection.waiting.length >= maxWaiting) {
      // Pausing it instead would not help: the parser resumes it after each request.
      this.#connections.delete(socket);
      socket.destroy();
      return;
    }
    response.once("close", () => this.#next(socket));
    if (connection === undefined) {
      this.#connections.set(socket, { last: request, waiting: [] });
      serve();
      return;
    }
    connection.last = request;
    connection.waiting.push(serve);
  }

  /**
   * Calls `reject`, which answers malformed bytes, when the responses to the requests before them are complete: a client takes the first
   * response for that to its first request. If the bytes belong to the body of the last request, calls it now.
   */
  reject(socket: Duplex, reject: () => void): void {
    const connection = this.#connections.get(socket);
    if (connection?.last.complete === true) connection.waiting.push(reject);
    else reject();
  }

  /** Whether an earlier request of the connection is in progress. */
  isServing({ socket }: IncomingMessage): boolean {
    return this.#connections.has(socket);
  }

  #next(socket: Socket): void {
    const serve = this.#connections.get(socket)?.waiting.shift();
    if (serve === undefined || socket.destroyed) {
      this.#connections.delete(socket);
      return;
    }
    setImmediate(() => {
      if (socket.destroyed) this.#connections.delete(socket);
      else serve();
    });
  }
}
