import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { createServer } from "node:https";
import type { AddressInfo } from "node:net";
import { systemClock } from "@keelson/api-machinery/time";
import { afterEach, describe, expect, it } from "vitest";
import { createAgentClient } from "../fleet/agent-client.ts";
import { serverTlsOptions } from "../protocol/tls-psk.ts";
import { limitHandshakes } from "./handshake-limit.ts";

const token = "0123456789abcdef".repeat(4);
const server = createServer(serverTlsOptions(token), (_, response) => response.setHeader("connection", "close").end("{}"));
const clients: Socket[] = [];

afterEach(async () => {
  for (const client of clients.splice(0)) client.destroy();
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
});

/** Opens a connection that sends `bytes` and then nothing. */
async function stall(port: number, bytes: string): Promise<Socket> {
  const client = connect(port, "127.0.0.1").on("error", () => {});
  clients.push(client);
  await once(client, "connect");
  client.write(bytes);
  return client;
}

describe("connections that do not complete their handshake", () => {
  it("are closed, oldest first, and never keep out a client with the key", async () => {
    limitHandshakes(server, 4);
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    const { port } = server.address() as AddressInfo;
    const [oldest] = [await stall(port, ""), await stall(port, "\x16\x03\x01")];
    const closed = once(oldest ?? server, "close");
    oldest?.resume();
    for (let index = 0; index < 4; index += 1) await stall(port, "GET / HTTP/1.1\r\n".slice(0, index));
    await closed;
    const deleteOne = (): Promise<void> =>
      createAgentClient({ url: `https://127.0.0.1:${port}`, token }, systemClock).delete("0".repeat(32));
    // Authenticated connections do not count.
    for (let index = 0; index < 6; index += 1) await expect(deleteOne()).resolves.toBeUndefined();
  });
});
