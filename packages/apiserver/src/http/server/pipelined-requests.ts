import type { IncomingMessage, ServerResponse } from "node:http";
import type { Socket } from "node:net";

/** A connection with more requests behind the one in progress is closed. Clients that wait for responses have none. */
const maxWaiting = 128;

/**
 * Serves the requests of each connection one after the other. Node's parser emits all requests of a read in one turn of the event loop, up
 * to 2,000; each request after the first waits for the response before it and begins in a turn of its own.
 */
export class PipelinedRequests {
  /** By connection with a request in progress: those behind it. */
  readonly #waiting = new Map<Socket, (() => void)[]>();

  /** Calls `serve` now, or when the connection's earlier responses are complete. Not at all if it closes before. */
  add({ socket }: IncomingMessage, response: ServerResponse, serve: () => void): void {
    if (socket.destroyed) return;
    const waiting = this.#waiting.get(socket);
    if (waiting !== undefined && waiting.length >= maxWaiting) {
      // Pausing it instead would not help: the parser resumes it after each request.
      this.#waiting.delete(socket);
      socket.destroy();
      return;
    }
    response.once("close", () => this.#next(socket));
    if (waiting === undefined) {
      this.#waiting.set(socket, []);
      serve();
    } else waiting.push(serve);
  }

  /** Whether an earlier request of the connection is in progress. */
  isServing({ socket }: IncomingMessage): boolean {
    return this.#waiting.has(socket);
  }

  #next(socket: Socket): void {
    const serve = this.#waiting.get(socket)?.shift();
    if (serve === undefined || socket.destroyed) {
      this.#waiting.delete(socket);
      return;
    }
    setImmediate(() => {
      if (socket.destroyed) this.#waiting.delete(socket);
      else serve();
    });
  }
}
