import { EventEmitter } from "node:events";
import type { Socket } from "node:net";
import { expect, test } from "vitest";
import { ConnectionLimit } from "./connection-limit.ts";

let nextPort = 1;

function connection(closed: number[]): Socket {
  const remotePort = nextPort++;
  const emitter = new EventEmitter();
  const destroy = (): void => {
    closed.push(remotePort);
    emitter.emit("close");
  };
  return Object.assign(emitter, { remoteAddress: "127.0.0.1", remotePort, destroy }) as unknown as Socket;
}

/** Opens connections and returns their ports. */
function open(limit: ConnectionLimit, closed: number[], count: number, client?: string): readonly number[] {
  return Array.from({ length: count }, () => {
    const socket = connection(closed);
    limit.add(socket);
    if (client !== undefined) limit.assign(socket, client);
    return socket.remotePort ?? 0;
  });
}

test("closes the oldest connection of the client with most of them", () => {
  const limit = new ConnectionLimit(6);
  const closed: number[] = [];
  const quiet = open(limit, closed, 2, "quiet");
  const [oldest, second] = open(limit, closed, 4, "flooding");
  expect(closed).toEqual([]);
  open(limit, closed, 1);
  expect(closed).toEqual([oldest]);
  open(limit, closed, 1, "late");
  expect(closed).toEqual([oldest, second]);
  open(limit, closed, 20, "flooding");
  expect(closed.filter((port) => quiet.includes(port))).toEqual([]);
});

test("clients that do not authenticate do not keep others out", () => {
  const limit = new ConnectionLimit(10);
  const closed: number[] = [];
  const honest = open(limit, closed, 3, "honest");
  open(limit, closed, 1000);
  const late = open(limit, closed, 1, "late");
  open(limit, closed, 1000);
  expect(closed.filter((port) => [...honest, ...late].includes(port))).toEqual([]);
});

test("forgets connections that have closed", () => {
  const limit = new ConnectionLimit(2);
  const closed: number[] = [];
  for (let count = 0; count < 5; count++) {
    const socket = connection([]);
    limit.add(socket);
    limit.assign(socket, "one");
    socket.destroy();
  }
  open(limit, closed, 2, "one");
  expect(closed).toEqual([]);
});
