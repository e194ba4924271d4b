import { expect, test } from "vitest";
import { isProxyableAddress } from "./proxyable-address.ts";

test.each(["10.0.0.1", "192.168.1.5", "127.64.0.1", "127.127.255.253", "2001:db8::1", "::ffff:127.64.0.1"])(
  "%s is allowed",
  (address) => {
    expect(isProxyableAddress(address)).toBe(true);
  },
);

test.each([
  "127.0.0.1",
  "127.63.255.255",
  "127.128.0.1",
  "0.0.0.0",
  "169.254.169.254",
  "224.0.0.1",
  "255.255.255.255",
  "::",
  "::1",
  "::ffff:127.0.0.1",
  "fe80::1",
  "ff02::1",
  "localhost",
  "127.1",
  "",
])("%s is refused", (address) => {
  expect(isProxyableAddress(address)).toBe(false);
});
