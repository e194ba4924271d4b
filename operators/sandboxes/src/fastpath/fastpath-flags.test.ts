import { expect, it } from "vitest";
import { readAccess, readProxy } from "./fastpath-flags.ts";

it("has no proxy by default, and one on loopback with a port", () => {
  expect(readProxy({})).toBeUndefined();
  expect(readProxy({ "sandbox-proxy-port": "8443" })).toEqual({ port: 8443, bindAddress: "127.0.0.1", publicUrl: undefined });
});

it("serves the proxy beyond loopback with TLS only", () => {
  const flags = { "sandbox-proxy-port": "8443", "sandbox-proxy-bind-address": "0.0.0.0" };
  expect(() => readProxy(flags)).toThrow("requires TLS beyond loopback: set --fastpath-tls");
  expect(readProxy({ ...flags, "fastpath-tls": true })?.bindAddress).toBe("0.0.0.0");
});

it.each([
  "boxes.example",
  "ftp://boxes.example",
  "https://boxes.example/path",
  "https://user@boxes.example",
  "https://10.0.0.1",
  "https://[::1]",
])("rejects the public URL %s", (url) => {
  expect(() => readProxy({ "sandbox-proxy-port": "0", "sandbox-proxy-url": url })).toThrow("must be of the form https://");
});

it("rejects a public URL without a proxy", () => {
  expect(() => readProxy({ "sandbox-proxy-url": "https://boxes.example" })).toThrow("requires --sandbox-proxy-port");
});

it("accepts calls without credentials on loopback only", () => {
  expect(readAccess({}).isOpen).toBe(false);
  expect(readAccess({ "fastpath-insecure-loopback": true }).isOpen).toBe(true);
  const flags = { "fastpath-insecure-loopback": true as const, "fastpath-bind-address": "0.0.0.0" };
  expect(() => readAccess(flags)).toThrow("must be a loopback address with --fastpath-insecure-loopback");
});
