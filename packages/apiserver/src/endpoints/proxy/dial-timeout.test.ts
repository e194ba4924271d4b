import { once } from "node:events";
import { createServer, type RequestListener } from "node:http";
import { type AddressInfo, createServer as createTcpServer, type Server } from "node:net";
import { Duplex, Readable } from "node:stream";
import { text } from "node:stream/consumers";
import { createVirtualClock } from "@keelson/api-machinery/testing";
import { afterEach, describe, expect, it } from "vitest";
import type { ForwardedRequest } from "../outcome.ts";
import { exchange, switchProtocol } from "./reverse-proxy.ts";

const host = "127.0.0.1";
const route = { prefix: "", path: "/a", query: "" };
const cleanups: (() => unknown)[] = [];
afterEach(() => {
  for (const cleanup of cleanups.splice(0)) cleanup();
});

function requestOf(isUpgrade: boolean): ForwardedRequest {
  const headers = isUpgrade ? { connection: "Upgrade", upgrade: "echo" } : {};
  return { method: "GET", url: "/a", headers, isUpgrade, body: () => Readable.from([]) };
}

async function portOf(server: Server): Promise<number> {
  cleanups.push(() => server.close());
  server.listen(0, host);
  await once(server, "listening");
  return (server.address() as AddressInfo).port;
}

/** A target that accepts connections and never answers a TLS handshake. */
async function startSilent(): Promise<{ readonly port: number; readonly accepted: Promise<unknown> }> {
  const server = createTcpServer((socket) => {
    socket.on("error", () => undefined).resume();
    cleanups.push(() => socket.destroy());
  });
  const accepted = once(server, "connection");
  return { port: await portOf(server), accepted };
}

/** A target whose responses `answer` writes, and a promise for its first request. */
async function startHttp(answer: RequestListener): Promise<{ readonly port: number; readonly arrived: Promise<unknown> }> {
  const server = createServer(answer);
  cleanups.push(() => server.closeAllConnections());
  const arrived = once(server, "request");
  return { port: await portOf(server), arrived };
}

/** A client whose connection records what is written to it. */
function client(): { readonly socket: Duplex; readonly written: () => string } {
  let written = "";
  const socket = new Duplex({
    read: () => undefined,
    write(chunk, _, done) {
      written += String(chunk);
      done();
    },
  });
  cleanups.push(() => socket.destroy());
  return { socket, written: () => written };
}

describe("a proxied request", () => {
  it("fails if its target does not complete a connection within 30 s", async () => {
    const clock = createVirtualClock();
    const { port, accepted } = await startSilent();
    const target = { scheme: "https", host, port } as const;
    const outcome = exchange(target, route, requestOf(false), undefined, { clock }).catch((error: Error) => error.message);
    await accepted;
    await clock.advance(30_000);
    expect(await outcome).toBe(`error trying to reach service: dial tcp ${host}:${port}: i/o timeout`);
  });

  it("may wait longer for the response of a target that is connected", async () => {
    const clock = createVirtualClock();
    let answer = (): void => undefined;
    const { port, arrived } = await startHttp((_, response) => {
      answer = () => void response.end("late");
    });
    const outcome = exchange({ scheme: "http", host, port }, route, requestOf(false), undefined, { clock });
    await arrived;
    await clock.advance(60_000);
    answer();
    expect(await text((await outcome).body as Readable)).toBe("late");
  });
});

describe("a proxied upgrade", () => {
  it("is refused if its target does not complete a connection within 30 s", async () => {
    const clock = createVirtualClock();
    const { port, accepted } = await startSilent();
    const { socket, written } = client();
    const statuses: number[] = [];
    const onStatus = (status: number): void => void statuses.push(status);
    const head = Buffer.alloc(0);
    const upgrade = switchProtocol({ scheme: "https", host, port }, route, requestOf(true), { clock });
    upgrade.connect({ socket, head, url: "/a", headers: {}, onStatus });
    await accepted;
    await clock.advance(30_000);
    await expect.poll(() => statuses).toEqual([503]);
    await expect.poll(written).toContain(`dial tcp ${host}:${port}: i/o timeout`);
  });

  it("is refused with the status of its target if the explanation does not end within 30 s", async () => {
    const clock = createVirtualClock();
    const { port, arrived } = await startHttp((_, response) => void response.writeHead(403).write("forbid"));
    const { socket, written } = client();
    const statuses: number[] = [];
    const onStatus = (status: number): void => void statuses.push(status);
    const upgrade = switchProtocol({ scheme: "http", host, port }, route, requestOf(true), { clock });
    upgrade.connect({ socket, head: Buffer.alloc(0), url: "/a", headers: {}, onStatus });
    await arrived;
    await expect
      .poll(async () => {
        // The connection exists, so this is the timer of the explanation.
        if (clock.pendingTimers > 0) await clock.advance(30_000);
        return statuses;
      })
      .toEqual([403]);
    await expect.poll(written).toContain("HTTP/1.1 403 Forbidden");
  });
});
