import { createServer, type Server } from "node:net";
import { once } from "node:events";
import { systemClock } from "@keelson/api-machinery/time";
import { silentLogger } from "@keelson/controller";
import { afterEach, describe, expect, it } from "vitest";
import { isolationPassword } from "./leftover-server.ts";
import { RedisConnection } from "./redis-connection.ts";
import { RedisParameters } from "./redis-parameters.ts";
import { fencePrimary } from "./redis-peers.ts";

const host = "127.0.0.1";
let server: Server | undefined;
afterEach(() => server?.close());

/** Fences a primary that gives one answer to each AUTH. */
async function fence(answer: (password: string) => string) {
  const primary = createServer((socket) => {
    socket.on("error", () => socket.destroy());
    socket.on("data", (data) => {
      const [, , command, , password = ""] = data.toString().split("\r\n");
      socket.write(`${command === "AUTH" ? answer(password) : "-ERR unexpected"}\r\n`);
    });
  });
  server = primary;
  primary.listen(0, host);
  await once(primary, "listening");
  const address = primary.address();
  const port = typeof address === "object" ? (address?.port ?? 0) : 0;
  const connection = new RedisConnection({ host, port, password: "own", clock: systemClock });
  const parameters = new RedisParameters(connection);
  const common = { connection, parameters, port, clock: systemClock, log: silentLogger };
  return fencePrimary({ ...common, passwords: () => ["first", "second"] }, host, 1_000);
}

const wrong = "-WRONGPASS invalid username-password pair or user is disabled.";

describe("a primary that rejects the passwords of a replica", () => {
  it("needs no fence if it has the password of an isolated server", async () => {
    expect(await fence((password) => (password === isolationPassword("second") ? "+OK" : wrong))).toEqual({ ok: true });
  });

  it("must be terminated if its password is not known, or if it rejects the connection for another reason", async () => {
    expect(await fence(() => wrong)).toMatchObject({ ok: false, mustTerminate: true });
    server?.close();
    expect(await fence(() => "-ERR max number of clients reached")).toMatchObject({ ok: false, mustTerminate: true });
  });
});
