import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, beforeEach, expect, it } from "vitest";
import { createWebhookAgent, isMachineService } from "./webhook-agent.ts";
import { callWebhook } from "./webhook-call.ts";

let server: Server;
let requests: number;
beforeEach(async () => {
  requests = 0;
  server = createServer((_, response) => {
    requests += 1;
    response.end('{"passed": true}');
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
});
afterEach(() => new Promise((resolve) => server.close(resolve)));

const ask = async (host: string, isForbidden?: (address: string) => boolean) => {
  const agent = createWebhookAgent(isForbidden);
  const url = `http://${host}:${(server.address() as AddressInfo).port}/`;
  const answer = await callWebhook(
    { url, function: "f", params: undefined, state: null, timeoutMs: 10_000 },
    agent,
    AbortSignal.timeout(20_000),
  );
  await agent.destroy();
  return answer;
};

it.each(["127.0.0.1", "localhost", "2130706433", "0x7f.1"])("sends nothing to %s if its address is forbidden", async (host) => {
  expect(await ask(host)).toMatchObject({ kind: "answer", passed: true });
  expect(await ask(host, (address) => address === "127.0.0.1")).toMatchObject({
    kind: "error",
    message: expect.stringContaining("has the address of a service of the machine"),
  });
  expect(requests).toBe(1);
});

it.each([
  ["169.254.169.254", true],
  ["::ffff:169.254.169.254", true],
  ["fe80::1", true],
  ["fd00:ec2::254", true],
  ["100.100.100.200", true],
  ["127.0.0.1", false],
  ["10.0.0.1", false],
  ["fd00::1", false],
])("knows the addresses of the machine's services: %s", (address, expected) => {
  expect(isMachineService(address)).toBe(expected);
});
