import { PassThrough } from "node:stream";
import { expect, test } from "vitest";
import { logHandshake, sendMessages } from "./log-socket.ts";

const key = Buffer.alloc(16).toString("base64");
const request = (protocol?: string): Record<string, string> => ({
  upgrade: "websocket",
  "sec-websocket-version": "13",
  "sec-websocket-key": key,
  ...(protocol !== undefined && { "sec-websocket-protocol": protocol }),
});

/** The bytes that a client receives for a log of one line. */
async function received(headers: Record<string, string>): Promise<Buffer> {
  const handshake = logHandshake(headers);
  if (handshake === undefined) throw new Error("not a handshake");
  const [socket, client] = [new PassThrough(), new PassThrough()];
  const written: Buffer[] = [];
  client.on("data", (bytes: Buffer) => written.push(bytes));
  Object.assign(socket, { write: (bytes: Buffer) => client.write(bytes), end: () => client.end() });
  async function* log(): AsyncGenerator<Uint8Array> {
    yield Buffer.from("line\n");
  }
  await sendMessages({ socket, head: Buffer.alloc(0) }, handshake, log);
  return Buffer.concat(written);
}

test("a log is sent as binary messages, or as Base64 in text messages if the client asks for it", async () => {
  const binary = await received(request("binary.k8s.io"));
  expect(binary.toString("latin1")).toContain("Sec-WebSocket-Protocol: binary.k8s.io\r\n\r\n\x82\x05line\n");
  const text = await received(request("base64.binary.k8s.io"));
  expect(text.toString("latin1")).toContain("\r\n\r\n\x81\x08bGluZQo=");
});

test("a client without a protocol gets bytes and no protocol, as in Kubernetes", async () => {
  const answer = (await received(request())).toString("latin1");
  expect(answer).not.toContain("Sec-WebSocket-Protocol");
  expect(answer).toContain("\r\n\r\n\x82\x05line\n");
});

test("an ordinary request is not a handshake", () => {
  expect(logHandshake({})).toBeUndefined();
});
