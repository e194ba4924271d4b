import { once } from "node:events";
import { createServer, type Server } from "node:net";
import { systemClock } from "@keelson/api-machinery/time";
import { afterEach, describe, expect, it } from "vitest";
import { RedisConnection } from "./redis-connection.ts";
import { openSocket } from "./redis-tls.ts";

const host = "127.0.0.1";
const servers: Server[] = [];
afterEach(() => {
  for (const server of servers.splice(0)) server.close();
});

async function listen(): Promise<number> {
  const server = createServer((socket) => socket.destroy());
  servers.push(server);
  server.listen(0, host);
  await once(server, "listening");
  const address = server.address();
  return typeof address === "object" ? (address?.port ?? 0) : 0;
}

/** A port on which nothing listens. */
async function closedPort(): Promise<number> {
  const port = await listen();
  const server = servers.pop();
  server?.close();
  if (server !== undefined) await once(server, "close");
  return port;
}

describe("a connection to another Pod", () => {
  it("without TLS, rejects with the error of the network", async () => {
    const unroutable = openSocket({ host: "255.255.255.255", port: 6_379 }, 1_000, systemClock);
    await expect(unroutable).rejects.toMatchObject({ code: expect.stringMatching(/^E(NETUNREACH|ACCES|HOSTUNREACH)$/) });
    const refused = openSocket({ host, port: await closedPort() }, 1_000, systemClock);
    await expect(refused).rejects.toMatchObject({ code: "ECONNREFUSED" });
  });

  it("without TLS, is refused only if the port with TLS refuses too", async () => {
    const isRefused = (port: number, tlsPort: number): Promise<boolean> =>
      new RedisConnection({ host, port, tlsPort, password: "p", clock: systemClock }).isRefusedBy(host);
    expect(await isRefused(await closedPort(), await listen())).toBe(false);
    expect(await isRefused(await closedPort(), await closedPort())).toBe(true);
  });

  it.each(["prefer", "require"] as const)("with TLS in mode %s, is refused only if both ports refuse", async (mode) => {
    const tls = { port: await closedPort(), mode, authorities: () => "" };
    const isRefused = (port: number): Promise<boolean> =>
      new RedisConnection({ host, port, password: "p", tls, clock: systemClock }).isRefusedBy(host);
    expect(await isRefused(await listen())).toBe(false);
    expect(await isRefused(await closedPort())).toBe(true);
  });
});
