import { expect, test } from "vitest";
import { podHosts } from "./network-files.ts";

test.each<[string, Parameters<typeof podHosts>[0]["spec"], readonly string[]]>([
  ["its name", { containers: [] }, ["10.70.0.1\tweb"]],
  ["its hostname", { containers: [], hostname: "host" }, ["10.70.0.1\thost"]],
  ["its name in a subdomain", { containers: [], subdomain: "sub" }, ["10.70.0.1\tweb.sub.shop.svc.cluster.local\tweb"]],
  [
    "its aliases",
    { containers: [], hostAliases: [{ ip: "192.0.2.1", hostnames: ["a.example", "b.example"] }] },
    ["10.70.0.1\tweb", "", "# Entries added by HostAliases.", "192.0.2.1\ta.example\tb.example"],
  ],
])("the hosts file of a Pod contains %s", (_, spec, lines) => {
  const text = podHosts({ apiVersion: "v1", kind: "Pod", metadata: { name: "web", namespace: "shop" }, spec }, "10.70.0.1");
  expect(text).toMatch(/^# Kubernetes-managed hosts file\.\n127\.0\.0\.1\tlocalhost\n/);
  expect(text.endsWith(`ip6-allrouters\n${lines.join("\n")}\n`)).toBe(true);
});
