import { once } from "node:events";
import { connect } from "node:net";
import { text } from "node:stream/consumers";
import { afterEach, beforeEach, expect, it } from "vitest";
import { FastPathService, SandboxStreams } from "@keelson/sandbox/protocol";
import { systemClock } from "@keelson/api-machinery/time";
import { authorizeCalls } from "./access/authorize-calls.ts";
import { createFastPathClient } from "./client.ts";
import { type FastPathServer, startFastPathServer } from "./fastpath-server.ts";

const token = "secret";
const noUser = (): Promise<never> => Promise.reject(new Error("not used"));
const identities = { authenticate: noUser, isAllowed: noUser };
const authorize = authorizeCalls({ staticToken: token, identities, clock: systemClock });
let server: FastPathServer;

beforeEach(async () => {
  server = await startFastPathServer({
    bindAddress: "127.0.0.1",
    port: 0,
    authorize,
    routes(router) {
      router.service(FastPathService, { listSandboxes: ({ namespace }) => ({ items: [{ sandboxName: namespace }] }) });
      router.service(SandboxStreams, {
        async *logs() {
          yield { data: Buffer.from("a".repeat(100_000)) };
          yield { data: Buffer.from("b") };
        },
      });
    },
  });
});

afterEach(() => server.close());

const post = (path: string, authorization: string): Promise<Response> =>
  fetch(`${server.url}/${path}`, {
    method: "POST",
    headers: { "content-type": "application/json", authorization },
    body: JSON.stringify({ namespace: "one" }),
  });

it("serves gRPC over HTTP/2 and Connect over HTTP/1.1 on one port, both with a token", async () => {
  const { fastPath, streams } = createFastPathClient({ baseUrl: server.url, token });
  expect((await fastPath.listSandboxes({ namespace: "two" })).items).toMatchObject([{ sandboxName: "two" }]);
  let bytes = 0;
  for await (const { data } of streams.logs({})) bytes += data.length;
  expect(bytes).toBe(100_001);
  const answer = await post("fastpath.v1.FastPathService/ListSandboxes", `Bearer ${token}`);
  expect(await answer.json()).toEqual({ items: [{ sandboxName: "one" }] });
  const refused = await post("fastpath.v1.FastPathService/ListSandboxes", "Bearer guessed");
  expect([refused.status, await refused.json()]).toMatchObject([401, { code: "unauthenticated" }]);
  const stranger = createFastPathClient({ baseUrl: server.url, token: "guessed" });
  await expect(stranger.fastPath.listSandboxes({})).rejects.toThrow(/bearer token required/);
});

it("answers what is not HTTP with an error, and closes open connections when it stops", async () => {
  const socket = connect(Number(new URL(server.url).port), "127.0.0.1");
  socket.end("nonsense\r\n\r\n");
  expect(await text(socket)).toMatch(/^HTTP\/1\.1 400 /);
  const silent = connect(Number(new URL(server.url).port), "127.0.0.1");
  await once(silent, "connect");
  const closed = once(silent, "close");
  silent.on("error", () => {});
  silent.resume();
  await server.close();
  await closed;
  server = await startFastPathServer({ bindAddress: "127.0.0.1", port: 0, authorize, routes: () => {} });
});
