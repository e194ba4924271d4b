import { once } from "node:events";
import { createServer, type Server } from "node:https";
import type { AddressInfo } from "node:net";
import { systemClock } from "@keelson/api-machinery/time";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { fileResultHeader } from "../protocol/protocol.ts";
import { serverTlsOptions } from "../protocol/tls-psk.ts";
import { type AgentClient, createAgentClient } from "./agent-client.ts";

const token = "0123456789abcdef".repeat(4);
const sandboxId = "0123456789abcdef".repeat(2);

let server: Server;
let client: AgentClient;
let body: string;
let headers: Readonly<Record<string, string>>;

beforeEach(async () => {
  headers = {};
  server = createServer(serverTlsOptions(token), (_, response) => response.writeHead(200, headers).end(body));
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  client = createAgentClient({ url: `https://127.0.0.1:${(server.address() as AddressInfo).port}`, token }, systemClock);
});

afterEach(async () => {
  server.closeAllConnections();
  server.close();
  await once(server, "close");
});

const first = async <T>(items: AsyncIterable<T>): Promise<unknown> => (await items[Symbol.asyncIterator]().next()).value;

const calls: readonly (readonly [string, () => Promise<unknown>])[] = [
  ["status", () => client.status()],
  ["watch", () => first(client.watch(new AbortController().signal))],
  ["create", () => client.create({ sandboxId, claimUid: "", claimName: "", namespace: "default", image: "host" })],
  ["files", () => client.files(sandboxId, { kind: "list", path: "." })],
  ["processes", () => client.processes(sandboxId, { kind: "list" })],
  [
    "watchFiles",
    async () => first(await client.watchFiles(sandboxId, { path: ".", isRecursive: false }, new AbortController().signal)),
  ],
];

describe("an agent that follows no protocol", () => {
  describe.each(calls)("cannot answer %s", (_, call) => {
    it.each([
      ["text", "no JSON"],
      ["null", "null"],
      ["a list", "[]"],
      ["fields of other types", '{"sandboxStatuses":{},"success":1,"entries":"a","processes":{},"changes":{}}'],
      ["deep nesting", "[".repeat(100_000) + "]".repeat(100_000)],
    ])("with %s", async (__, text) => {
      body = `${text}\n`;
      await expect(call()).rejects.toMatchObject({ name: "AgentError", code: "InvalidAnswer" });
    });
  });

  it("cannot send a report beyond the size that its capacity permits", async () => {
    const url = `https://127.0.0.1:${(server.address() as AddressInfo).port}`;
    const status = { agentId: "a", nodeName: "n", allocated: 0, images: [], sandboxStatuses: [] };
    const read = (capacity: number, bytes: number): Promise<unknown> => {
      body = `${JSON.stringify({ ...status, capacity, later: "x".repeat(bytes) })}\n`;
      return first(createAgentClient({ url, token, capacity }, systemClock).watch(new AbortController().signal));
    };
    expect(await read(4, 512 * 1024)).toEqual({ ...status, capacity: 4 });
    await expect(read(4, 600 * 1024)).rejects.toMatchObject({ code: "InvalidAnswer" });
    expect(await read(8, 600 * 1024)).toEqual({ ...status, capacity: 8 });
    await expect(read(1000, 8 << 20)).rejects.toMatchObject({ code: "InvalidAnswer" });
  });

  it.each(["%", "null", encodeURIComponent('{"info":{"name":"../one"}}')])(
    "cannot describe a file with %s in its header",
    async (text) => {
      headers = { [fileResultHeader]: text };
      body = "data";
      await expect(client.files(sandboxId, { kind: "read", path: "one", offset: 0 })).rejects.toMatchObject({
        code: "InvalidAnswer",
      });
    },
  );
});
