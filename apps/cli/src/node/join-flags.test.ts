import { createServer } from "node:net";
import type { AddressInfo } from "node:net";
import { expect, it } from "vitest";
import { addressTowards, isLoopback } from "./node-address.ts";
import { parseTaint } from "./taint-flag.ts";

it.each([
  ["gpu=true:NoSchedule", { key: "gpu", value: "true", effect: "NoSchedule" }],
  ["example.com/laptop:NoExecute", { key: "example.com/laptop", effect: "NoExecute" }],
  ["a=:PreferNoSchedule", { key: "a", value: "", effect: "PreferNoSchedule" }],
])("parses the taint %s", (text, taint) => {
  expect(parseTaint(text)).toEqual(taint);
});

it.each(["", "a", "a=b", "a:Sometimes", "=b:NoSchedule", "a b:NoSchedule", "a=b c:NoSchedule"])(
  "rejects the taint %j",
  (text) => {
    expect(() => parseTaint(text)).toThrow(/^--taint: /);
  },
);

it("finds the address on the way to a server, and says what to do if it cannot be reached", async () => {
  const server = createServer().listen(0, "127.0.0.1");
  await new Promise((resolve) => server.once("listening", resolve));
  const { port } = server.address() as AddressInfo;
  const address = await addressTowards(`https://127.0.0.1:${port}`);
  await new Promise((resolve) => server.close(resolve));
  expect(address).toBe("127.0.0.1");
  expect(isLoopback(address)).toBe(true);
  await expect(addressTowards(`https://127.0.0.1:${port}`)).rejects.toThrow(/; pass --address$/);
});
