import { expect, test } from "vitest";
import { parseResolvConf, resolvConf } from "./resolv-conf.ts";

const machine = parseResolvConf(
  "# a comment\ndomain old.example\nsearch corp.example ; another\nnameserver 127.0.0.53\nnameserver 192.0.2.1\noptions edns0\n",
);
const own = "shop.svc.cluster.local svc.cluster.local cluster.local";
const clusterFirst = `nameserver 10.134.0.10\nsearch ${own} corp.example\noptions ndots:5\n`;

test.each<[string, Parameters<typeof resolvConf>[1], string]>([
  ["no policy", {}, clusterFirst],
  ["ClusterFirst", { dnsPolicy: "ClusterFirst" }, clusterFirst],
  ["ClusterFirstWithHostNet", { dnsPolicy: "ClusterFirstWithHostNet" }, clusterFirst],
  [
    "Default, with the cluster's server for one on loopback",
    { dnsPolicy: "Default" },
    "nameserver 10.134.0.10\nnameserver 192.0.2.1\nsearch corp.example\noptions edns0\n",
  ],
  [
    "None",
    { dnsPolicy: "None", dnsConfig: { nameservers: ["192.0.2.9"], searches: ["a.example"] } },
    "nameserver 192.0.2.9\nsearch a.example\n",
  ],
  [
    "dnsConfig in addition to the policy",
    {
      dnsConfig: {
        nameservers: ["192.0.2.1", "192.0.2.2", "192.0.2.3"],
        searches: ["cluster.local", "a.example"],
        options: [{ name: "ndots", value: "2" }, { name: "rotate" }, { name: "x", value: "1\nnameserver 192.0.2.66" }],
      },
    },
    `nameserver 10.134.0.10\nnameserver 192.0.2.1\nnameserver 192.0.2.2\nsearch ${own} corp.example a.example\noptions ndots:2 rotate\n`,
  ],
])("%s", (_, spec, text) => {
  expect(resolvConf("shop", spec, "10.134.0.10", machine)).toBe(text);
});

test("at most 32 search domains are kept", () => {
  const searches = Array.from({ length: 40 }, (_, index) => `d${index}.example`);
  const text = resolvConf(
    "shop",
    { dnsPolicy: "None", dnsConfig: { nameservers: ["192.0.2.1"], searches } },
    "10.134.0.10",
    machine,
  );
  expect(text.split("\n")[1]?.split(" ")).toHaveLength(33);
});
