import { once } from "node:events";
import { type AddressInfo, createServer, type Socket } from "node:net";
import { systemClock } from "@keelson/api-machinery/time";
import type { Program } from "@keelson/execution";
import { expect, onTestFinished, test } from "vitest";
import { runProbe } from "./probe-runner.ts";

/** A server that responds each connection as a hostile Pod would. */
async function serve(answer: (socket: Socket) => void): Promise<number> {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on("error", () => {});
    answer(socket);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return (server.address() as AddressInfo).port;
}

/** Writes without an end, as fast as the client reads. */
const flood =
  (start: string, rest: string) =>
  (socket: Socket): void => {
    socket.write(start);
    const write = (): void => {
      while (!socket.destroyed && socket.write(rest)) continue;
    };
    socket.on("drain", write);
    write();
  };

const probe = async (answer: (socket: Socket) => void): Promise<string | undefined> => {
  const port = await serve(answer);
  const program = {} as Partial<Program> as Program;
  const target = { program, container: { name: "c" }, podIP: "127.0.0.1", clock: systemClock };
  return runProbe({ httpGet: { port } }, target, 60_000);
};

test("an HTTP probe gives up on a program that sends informational responses without an end", async () => {
  expect(await probe(flood("", "HTTP/1.1 100 Continue\r\n\r\n".repeat(1_000)))).toContain("too many 1xx");
});

test("an HTTP probe accepts a few informational responses", async () => {
  const early = "HTTP/1.1 103 Early Hints\r\n\r\n".repeat(3);
  expect(await probe((socket) => void socket.end(`${early}HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n`))).toBeUndefined();
});

test("an HTTP probe needs the status only, and limits the headers", async () => {
  expect(await probe(flood("HTTP/1.1 200 OK\r\n\r\n", "x".repeat(65_536)))).toBeUndefined();
  expect(await probe(flood("HTTP/1.1 500 Failed\r\n\r\n", "x".repeat(65_536)))).toBe("HTTP probe failed with statuscode: 500");
  expect(await probe(flood("HTTP/1.1 200 OK\r\n", `a: ${"x".repeat(1_000)}\r\n`))).toContain("Header overflow");
});
