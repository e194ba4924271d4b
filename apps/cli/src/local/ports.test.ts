import { expect, test } from "vitest";
import { portsOf, withFreePort } from "./ports.ts";

test("the ports of running servers become the values of their flags", () => {
  const flags = [
    { name: "mqtt-port", description: "", endpoint: "mqtt" },
    { name: "fastpath-port", description: "", endpoint: "fastpath" },
    { name: "fastpath-metrics-port", description: "", endpoint: "fastpath-metrics" },
    { name: "mqtt-url", description: "" },
  ];
  const endpoints = { mqtt: "tcp://127.0.0.1:40123", fastpath: "http://[::1]:9090", other: "http://127.0.0.1:1" };
  expect(portsOf(flags, endpoints)).toEqual({ "mqtt-port": "40123", "fastpath-port": "9090" });
});

test("an external server without a port in its URL sets no flag", () => {
  const flags = [{ name: "mqtt-port", description: "", endpoint: "mqtt" }];
  expect(portsOf(flags, { mqtt: "mqtt://broker.example.org" })).toEqual({});
});

test("only a port in use leads to another port", async () => {
  const inUse = Object.assign(new Error("listen"), { code: "EADDRINUSE" });
  const start = (): Promise<string> => Promise.reject(new Error("--mqtt-port: in use", { cause: inUse }));
  await expect(withFreePort(start, async () => "moved")).resolves.toBe("moved");
  await expect(withFreePort(start, undefined)).rejects.toThrow("--mqtt-port: in use");
  await expect(
    withFreePort(
      () => Promise.reject(new Error("no such file")),
      async () => "moved",
    ),
  ).rejects.toThrow("no such file");
});
