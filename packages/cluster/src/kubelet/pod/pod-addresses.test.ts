import { expect, test } from "vitest";
import { networkParameters } from "./pod-addresses.ts";
import { podOf } from "./testing/simulated-pod.ts";

test("only names of network parameters are set", () => {
  const names = ["net.core.somaxconn", "net/ipv4/tcp_syncookies", "kernel.shmmax", "net.core.$(id)", "net.a;b", "net.a\nb"];
  const sysctls = names.map((name) => ({ name, value: "1" }));
  expect(networkParameters(podOf({ securityContext: { sysctls } }))).toEqual({
    "net/core/somaxconn": "1",
    "net/ipv4/tcp_syncookies": "1",
  });
});
