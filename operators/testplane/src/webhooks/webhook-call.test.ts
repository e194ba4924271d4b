import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { Agent } from "undici";
import { afterEach, beforeEach, expect, it } from "vitest";
import { callWebhook } from "./webhook-call.ts";

let server: Server;
let url: string;
let asked: { readonly path: string | undefined; readonly body: unknown }[];
let answer: (request: IncomingMessage, response: ServerResponse) => void;
const dispatcher = new Agent();

beforeEach(async () => {
  asked = [];
  server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.on("end", () => {
      asked.push({ path: request.url, body: JSON.parse(Buffer.concat(chunks).toString()) });
      answer(request, response);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});
afterEach(async () => {
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
});

const ask = (timeoutMs = 15_000) =>
  callWebhook(
    { url: `${url}/check?x=1`, function: "VerifyRows", params: { min: 1 }, state: { kind: "Pod" }, timeoutMs },
    dispatcher,
    new AbortController().signal,
  );
const json = (text: string) => (_: IncomingMessage, response: ServerResponse) => void response.end(text);

it("posts the function, its parameters and the object, and returns the response", async () => {
  answer = json('{"passed": true, "actual": 7}');
  expect(await ask()).toEqual({ kind: "answer", passed: true, actual: "7" });
  expect(asked).toEqual([{ path: "/check?x=1", body: { function: "VerifyRows", params: { min: 1 }, state: { kind: "Pod" } } }]);
});

it.each([
  ["invalid JSON", json("hello"), /not valid JSON/],
  ["no `passed`", json('{"message": "fine"}'), /must have a boolean `passed`/],
  ["`passed` as text", json('{"passed": "true"}'), /must have a boolean `passed`/],
  ["a failure", (_: IncomingMessage, response: ServerResponse) => void response.writeHead(500).end(), /HTTP 500/],
  [
    "an endless body",
    (_: IncomingMessage, response: ServerResponse) => void response.end("x".repeat((1 << 20) + 1)),
    /exceeds/,
  ],
])("reports %s as an error", async (_, behaviour, message) => {
  answer = behaviour;
  expect(await ask()).toEqual({ kind: "error", message: expect.stringMatching(message) });
});

it("does not follow redirects", async () => {
  answer = (_, response) => void response.writeHead(302, { location: `${url}/elsewhere` }).end();
  expect(await ask()).toEqual({ kind: "error", message: "the webhook responded with HTTP 302; redirects are not followed" });
  expect(asked).toHaveLength(1);
});

it("times out if the webhook does not respond", async () => {
  answer = (_, response) => void response.write('{"passed":');
  expect(await ask(50)).toEqual({ kind: "error", message: "the webhook did not respond within 0.05 s" });
});

it("reports a refused connection", async () => {
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
  expect(await ask()).toMatchObject({ kind: "error", message: expect.stringContaining("ECONNREFUSED") });
  server.listen(0, "127.0.0.1");
});
