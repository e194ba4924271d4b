import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { systemClock } from "@keelson/api-machinery/time";
import { afterEach, expect, it } from "vitest";
import { type Channel, type ChannelServer, listenForChannels, openChannel } from "./channel.ts";

const host = "127.0.0.1";
const servers: ChannelServer[] = [];
const sockets: Socket[] = [];

afterEach(() => {
  for (const server of servers.splice(0)) server.close();
  for (const socket of sockets.splice(0)) socket.destroy();
});

/** A launcher that records messages, and resolves `closed` when its first connection is closed. */
async function startServer(token: string) {
  const messages: unknown[] = [];
  let onClosed: (reason: string) => void = () => {};
  const closed = new Promise<string>((resolve) => (onClosed = resolve));
  const onChannel = (channel: Channel) => ({
    onMessage(message: unknown) {
      messages.push(message);
      channel.close();
    },
    onClose: onClosed,
  });
  const server = await listenForChannels({ host, port: 0, token, clock: systemClock, onChannel });
  servers.push(server);
  return { port: server.port, messages, closed };
}

/** Connects as a worker that sends `send` to the launcher. */
async function join(port: number, token: string, send: (channel: Channel) => void): Promise<void> {
  let onClosed = (): void => {};
  const closed = new Promise<void>((resolve) => (onClosed = resolve));
  const onChannel = (channel: Channel) => {
    send(channel);
    return { onMessage: () => {}, onClose: onClosed };
  };
  await openChannel({ host, port, token, clock: systemClock, onChannel });
  await closed;
}

const connected = async (port: number): Promise<Socket> => {
  const socket = connect({ host, port });
  socket.on("error", () => {});
  sockets.push(socket);
  await once(socket, "connect");
  return socket;
};

it("rejects a worker of another job, and a launcher that does not have the token", async () => {
  const { port, messages } = await startServer("token-of-one-job");
  await expect(join(port, "token-of-another-job", (channel) => channel.send({ type: "join", worker: 0 }))).rejects.toThrow();
  expect(messages).toEqual([]);
});

it("does not read messages without TLS", async () => {
  const { port, messages } = await startServer("a-token");
  const socket = await connected(port);
  const closed = once(socket, "close");
  socket.write('{"type":"join","worker":0}\n');
  await closed;
  expect(messages).toEqual([]);
});

it("accepts a worker while clients without the token keep connections open", async () => {
  const { port, messages } = await startServer("a-token");
  await Promise.all(Array.from({ length: 200 }, () => connected(port)));
  await join(port, "a-token", (channel) => channel.send({ type: "join", worker: 0 }));
  expect(messages).toEqual([{ type: "join", worker: 0 }]);
});

it("disconnects a worker that sends an endless line", async () => {
  const { port, messages, closed } = await startServer("a-token");
  await join(port, "a-token", (channel) => channel.send({ type: "x".repeat(2 * 1024 * 1024) }));
  expect(await closed).toBe("it sent a line that is too long");
  expect(messages).toEqual([]);
});
