import { PassThrough } from "node:stream";
import type { Status } from "@keelson/api-machinery";
import { expect, test } from "vitest";
import { remoteStreams } from "./remote-streams.ts";

const failure = { kind: "Status", apiVersion: "v1", metadata: {}, status: "Failure", message: "exit 3" } as Status;
const success = { kind: "Status", apiVersion: "v1", metadata: {}, status: "Success" } as Status;

/** The bytes that a client of a protocol receives when a command has ended. */
async function received(protocol: string, status: Status): Promise<string> {
  const [socket, client] = [new PassThrough(), new PassThrough()];
  const written: Buffer[] = [];
  client.on("data", (bytes: Buffer) => written.push(bytes));
  Object.assign(socket, { write: (bytes: Buffer) => client.write(bytes), end: () => client.end() });
  const agreed = { over: "websocket", key: "k", protocol } as const;
  const request = { socket, head: Buffer.alloc(0), url: "/", headers: {} };
  const streams = await remoteStreams(request, agreed, { stdin: false, stdout: true, stderr: true, tty: false });
  streams.finish(status);
  const bytes = Buffer.concat(written).toString("latin1");
  return bytes.slice(bytes.indexOf("\r\n\r\n") + 4);
}

test("the first protocol reports a failure as text, and a success not at all", async () => {
  const close = "\x88\x02\x03\xe8";
  expect(await received("channel.k8s.io", failure)).toBe(`\x82\x07\x03exit 3${close}`);
  expect(await received("channel.k8s.io", success)).toBe(close);
  expect(await received("v4.channel.k8s.io", success)).toContain('"status":"Success"');
});
