import { expect, test } from "vitest";
import { networkParameters } from "./pod-addresses.ts";
import { podOf } from "../testing/simulated-pod.ts";

test("only names of network parameters are set", () => {
  const conf = "net/ipv4/conf/eth0.100/rp_filter";
  const names = [
    "net.core.somaxconn",
    "net/ipv4/tcp_syncookies",
    conf,
    "kernel.shmmax",
    "net.core.$(id)",
    "net/../kernel/core_pattern",
    "net.a;b",
    "net.a\nb",
  ];
  const sysctls = names.map((name) => ({ name, value: "1" }));
  expect(networkParameters(podOf({ securityContext: { sysctls } }))).toEqual({
    "net/core/somaxconn": "1",
    "net/ipv4/tcp_syncookies": "1",
    [conf]: "1",
  });
});
