import type { Duplex } from "node:stream";
import { systemClock } from "@keelson/api-machinery/time";
import type { UpgradingTransport } from "@keelson/client";
import { expect, it } from "vitest";
import { forwardPort, type PortForwardRun } from "./port-forward-tool.ts";

const clock = {
  ...systemClock,
  setTimer: (delayMs: number, callback: () => void) => systemClock.setTimer(delayMs === 1_000 ? 0 : delayMs, callback),
};

/** Forwards to a port whose connections behave as the functions say, one after the other. */
function forward(
  portForward: Partial<PortForwardRun["portForward"]>,
  ...carries: ((local: Duplex) => Promise<string | undefined>)[]
) {
  return forwardPort({
    transport: {} as UpgradingTransport,
    pod: { namespace: "default", name: "web-0", containers: ["main"] },
    portForward: { port: 80, ...portForward },
    giveUpAtMs: Date.now() + 60_000,
    acceptsAnyStatus: false,
    clock,
    signal: new AbortController().signal,
    openPort: () => {
      const carry = carries.shift();
      return carry === undefined ? Promise.reject(new Error("too many attempts")) : Promise.resolve({ carry });
    },
  });
}

/** Responds with this text when something has arrived, and ends. */
const responds = (text: string) => (local: Duplex) =>
  new Promise<undefined>((resolve) => {
    local.once("data", () => local.end(text, () => resolve(undefined)));
  });

const refused = () => Promise.resolve("connection refused");

it("repeats a GET whose connection is refused or breaks", async () => {
  const result = await forward(
    { http: {} },
    refused,
    () => Promise.reject(new Error("reset")),
    () => Promise.resolve(undefined),
    responds("HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok"),
  );
  expect(result).toMatchObject({ statusCode: 200, stdout: "ok" });
});

it("reads the response to a text until the connection ends", async () => {
  expect(await forward({ send: "ping" }, responds("pong"))).toEqual({ exitCode: 0, stdout: "pong", stderr: "" });
  expect(await forward({ send: "ping", until: "po" }, responds("pong"))).toMatchObject({ stdout: "pong" });
});

it.each<[string, (local: Duplex) => Promise<string | undefined>, string]>([
  ["is refused", refused, "connection refused"],
  [
    "ends, and then is reported as refused",
    (local) => {
      local.end();
      return new Promise((resolve) => void local.resume().once("end", () => resolve("connection refused")));
    },
    "connection refused",
  ],
  ["breaks without a message", () => Promise.resolve(undefined), "the connection broke"],
  ["cannot be opened", () => Promise.reject(new Error("reset")), "the connection broke"],
])("fails if the connection for a text %s", async (_, carry, message) => {
  await expect(forward({ send: "ping" }, carry)).rejects.toMatchObject({ code: "PortForwardFailed", message });
});
