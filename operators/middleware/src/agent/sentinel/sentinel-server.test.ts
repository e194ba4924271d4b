import { connect } from "node:net";
import { systemClock } from "@keelson/api-machinery/time";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { connectResp, type RespClient } from "../redis/resp-client.ts";
import { SentinelServer } from "./sentinel-server.ts";

let primary: string;
let server: SentinelServer;
let client: RespClient;

const connectClient = (password: string): Promise<RespClient> =>
  connectResp({ host: "127.0.0.1", port: server.port, password, timeoutMs: 20_000, clock: systemClock });

beforeEach(async () => {
  primary = "10.0.0.1";
  server = await SentinelServer.start({
    ...{ host: "127.0.0.1", port: 0, accepts: (password: string) => password === "secret", clock: systemClock },
    topology: async () => ({
      name: "cache-redis-nodes",
      primary,
      replicas: ["10.0.0.2", "10.0.0.3"].filter((host) => host !== primary),
      peers: ["10.0.0.2", "10.0.0.3"],
      port: 6379,
      sentinelPort: 26379,
      hasQuorum: primary === "10.0.0.1",
    }),
  });
  client = await connectClient("secret");
});
afterEach(async () => {
  client.close();
  await server.stop();
});

describe("the Sentinel protocol", () => {
  it("names the address of the primary, and none for an unknown name", async () => {
    expect(await client.command("SENTINEL", "get-master-addr-by-name", "cache-redis-nodes")).toEqual(["10.0.0.1", "6379"]);
    expect(await client.command("SENTINEL", "GET-MASTER-ADDR-BY-NAME", "other")).toBeNull();
  });

  it("lists replicas, sentinels and the state of the primary", async () => {
    const replicas = (await client.command("SENTINEL", "replicas", "cache-redis-nodes")) as readonly (readonly string[])[];
    expect(replicas.map((fields) => fields[3])).toEqual(["10.0.0.2", "10.0.0.3"]);
    const sentinels = (await client.command("SENTINEL", "sentinels", "cache-redis-nodes")) as readonly (readonly string[])[];
    expect(sentinels.map((fields) => fields[1])).toEqual(["10.0.0.2:26379", "10.0.0.3:26379"]);
    const [fields] = (await client.command("SENTINEL", "masters")) as readonly (readonly string[])[];
    expect(fields?.join(" ")).toContain("name cache-redis-nodes ip 10.0.0.1 port 6379");
    expect(await client.command("ROLE")).toEqual(["sentinel", ["cache-redis-nodes"]]);
    expect(await client.command("PING")).toBe("PONG");
    expect(await client.command("SENTINEL", "ckquorum", "cache-redis-nodes")).toContain("OK 3 usable Sentinels");
    primary = "10.0.0.2";
    await expect(client.command("SENTINEL", "ckquorum", "cache-redis-nodes")).rejects.toThrow("NOQUORUM");
  });

  it("rejects unknown names, commands and protocol versions", async () => {
    await expect(client.command("SENTINEL", "master", "other")).rejects.toThrow("No such master with that name");
    await expect(client.command("FLUSHALL")).rejects.toThrow("unknown command 'FLUSHALL'");
    await expect(client.command("HELLO", "3")).rejects.toThrow("NOPROTO");
  });

  it("needs the password of the App", async () => {
    await expect(connectClient("wrong")).rejects.toThrow("WRONGPASS");
    const anonymous = await connectResp({ host: "127.0.0.1", port: server.port, timeoutMs: 20_000, clock: systemClock });
    await expect(anonymous.command("SENTINEL", "masters")).rejects.toThrow("NOAUTH");
    expect(await anonymous.command("HELLO", "2", "AUTH", "default", "secret")).toContain("sentinel");
    anonymous.close();
  });

  it("publishes a new primary to subscribers", async () => {
    const socket = connect(server.port, "127.0.0.1");
    let text = "";
    socket.on("data", (chunk) => {
      text += String(chunk);
    });
    const command = (...words: string[]) =>
      socket.write(`*${words.length}\r\n${words.map((word) => `$${word.length}\r\n${word}\r\n`).join("")}`);
    command("AUTH", "secret");
    command("SUBSCRIBE", "+switch-master");
    await expect.poll(() => text).toContain("subscribe");
    primary = "10.0.0.2";
    await expect.poll(() => text).toContain("cache-redis-nodes 10.0.0.1 6379 10.0.0.2 6379");
    socket.destroy();
  });

  it("closes a connection that sends no RESP", async () => {
    const socket = connect(server.port, "127.0.0.1");
    const closed = new Promise<string>((resolve) => {
      let text = "";
      socket.on("data", (chunk) => {
        text += String(chunk);
      });
      socket.on("close", () => resolve(text));
    });
    socket.write("GET / HTTP/1.1\r\n\r\n");
    expect(await closed).toBe("-ERR Protocol error\r\n");
  });
});
