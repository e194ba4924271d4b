import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import type { Duplex } from "node:stream";
import { isStatusError } from "@keelson/api-machinery";
import { afterEach, expect, onTestFinished, test } from "vitest";
import { createHttpTransport } from "./http-transport.ts";

const cleanUps: (() => void)[] = [];
afterEach(() => {
  for (const cleanUp of cleanUps.splice(0)) cleanUp();
});

async function serve(onUpgrade: (socket: Duplex, path: string, token: string) => void) {
  const server = createServer();
  server.on("upgrade", (request, socket) => {
    cleanUps.push(() => socket.destroy());
    onUpgrade(socket, request.url ?? "", request.headers.authorization ?? "");
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => void server.close());
  const { port } = server.address() as AddressInfo;
  const transport = createHttpTransport({ server: `http://127.0.0.1:${port}/below`, token: "secret" });
  onTestFinished(() => transport.close());
  return transport;
}
const request = { method: "GET", path: "/x", query: { a: "b" }, protocol: "shout/1" } as const;

test("upgrades a connection, with credentials", async () => {
  const transport = await serve((socket, path, token) => {
    socket.write("HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: shout/1\r\nx-more: yes\r\n\r\nfirst ");
    socket.on("data", (data: Buffer) => socket.end(`${path} ${token} ${data.toString().toUpperCase()}`));
  });
  const { socket, headers } = await transport.upgrade(request);
  expect(headers["x-more"]).toBe("yes");
  socket.write("hello");
  let text = "";
  for await (const part of socket) text += String(part);
  expect(text).toBe("first /below/x?a=b Bearer secret HELLO");
});

test("rejects with the server's Status, or with its text", async () => {
  const status = JSON.stringify({ kind: "Status", status: "Failure", message: "no such pod", reason: "NotFound", code: 404 });
  const answers = [
    `HTTP/1.1 404 Not Found\r\ncontent-type: application/json\r\ncontent-length: ${status.length}\r\n\r\n${status}`,
    "HTTP/1.1 502 Bad Gateway\r\ncontent-length: 4\r\n\r\nlost",
  ];
  const transport = await serve((socket) => void socket.end(answers.shift()));
  await expect(transport.upgrade(request)).rejects.toSatisfy((error) => isStatusError(error, "NotFound"));
  await expect(transport.upgrade(request)).rejects.toThrow(/502: lost/);
});

test("an aborted upgrade rejects with the signal's reason and closes the socket", async () => {
  let gone = (): void => {};
  const closed = new Promise<void>((resolve) => (gone = resolve));
  const stop = new AbortController();
  const transport = await serve((socket) => {
    socket
      .on("error", () => {})
      .on("end", gone)
      .resume();
    stop.abort(new Error("enough"));
  });
  await expect(transport.upgrade({ ...request, signal: stop.signal })).rejects.toThrow("enough");
  await closed;
});
