import type { EndpointSliceObject, ServiceObject } from "@keelson/api-machinery/kinds";
import { describe, expect, test } from "vitest";
import { NameIndex } from "./name-index.ts";
import { resolveName, responseCodes } from "./resolve-name.ts";

const service = (name: string, spec: NonNullable<ServiceObject["spec"]>): ServiceObject => ({
  apiVersion: "v1",
  kind: "Service",
  metadata: { name, namespace: "shop" },
  spec,
});
const slice = (name: string, endpoints: EndpointSliceObject["endpoints"]): EndpointSliceObject => ({
  apiVersion: "discovery.k8s.io/v1",
  kind: "EndpointSlice",
  metadata: { name: `${name}-1`, namespace: "shop", labels: { "kubernetes.io/service-name": name } },
  addressType: "IPv4",
  ports: [{ name: "sql", port: 5432, protocol: "TCP" }],
  endpoints,
});
const external = (externalName: string): NonNullable<ServiceObject["spec"]> => ({ type: "ExternalName", externalName });
const endpoints = [
  { addresses: ["10.70.0.1"], hostname: "db-0", conditions: { ready: true } },
  { addresses: ["10.70.0.2"], conditions: { ready: false } },
];
const index = new NameIndex({
  services: [
    service("web", { clusterIP: "10.134.0.9", ports: [{ name: "http", port: 80 }, { port: 81 }] }),
    service("db", { clusterIP: "None", ports: [{ name: "sql", port: 5432 }] }),
    service("all", { clusterIP: "None", publishNotReadyAddresses: true }),
    service("none", { clusterIP: "None" }),
    service("unready", { clusterIP: "None" }),
    service("alias", external("Web.shop.svc.cluster.local.")),
    service("outside", external("example.com")),
    service("dangling", external("gone.shop.svc.cluster.local")),
    service("loop", external("loop.shop.svc.cluster.local")),
    service("pending", {}),
  ],
  slices: [slice("db", endpoints), slice("all", endpoints), slice("unready", endpoints.slice(1))],
});
const networks = { pods: "10.70.0.0/16", services: "10.134.0.0/16" };
const { success, nxdomain, servfail } = responseCodes;
const shop = (name: string): string => `${name}.shop.svc.cluster.local`;

describe("answers", () => {
  test.each<[string, string, readonly unknown[]]>([
    ["dns-version.cluster.local", "TXT", ["1.1.0"]],
    [shop("web"), "A", ["10.134.0.9"]],
    ["WEB.Shop.svc.cluster.local", "A", ["10.134.0.9"]],
    [shop("_http._tcp.web"), "SRV", [{ priority: 0, weight: 100, port: 80, target: shop("web") }]],
    ["9.0.134.10.in-addr.arpa", "PTR", [shop("web")]],
    [shop("db"), "A", ["10.70.0.1"]],
    [shop("all"), "A", ["10.70.0.1", "10.70.0.2"]],
    [shop("db-0.db"), "A", ["10.70.0.1"]],
    [shop("10-70-0-2.all"), "A", ["10.70.0.2"]],
    [shop("_sql._tcp.db"), "SRV", [{ priority: 0, weight: 100, port: 5432, target: shop("db-0.db") }]],
    ["1.0.70.10.in-addr.arpa", "PTR", [shop("db-0.db"), shop("db-0.all")]],
    [shop("alias"), "A", [shop("web"), "10.134.0.9"]],
    [shop("alias"), "CNAME", [shop("web")]],
    ["10-70-3-4.shop.pod.cluster.local", "A", ["10.70.3.4"]],
  ])("%s %s", (name, type, data) => {
    const { code, answers, authorities, outside } = resolveName(index, networks, name, type);
    expect(answers.map((each) => "data" in each && each.data)).toEqual(data);
    expect({ code, authorities, outside }).toEqual({ code: success, authorities: [], outside: undefined });
  });

  test("SRV records come with the addresses of their targets", () => {
    const { additionals } = resolveName(index, networks, shop("_sql._tcp.db"), "SRV");
    expect(additionals).toEqual([{ type: "A", name: shop("db-0.db"), ttl: 5, data: "10.70.0.1" }]);
  });

  test("a zone has an SOA record", () => {
    expect(resolveName(index, networks, "cluster.local", "SOA").answers).toMatchObject([
      { type: "SOA", name: "cluster.local" },
    ]);
  });
});

describe("names without a response", () => {
  test.each<[string, string, string, number, string]>([
    ["no address of another family", shop("web"), "AAAA", success, "cluster.local"],
    ["only names below it", "svc.cluster.local", "A", success, "cluster.local"],
    ["a namespace", "shop.svc.cluster.local", "A", success, "cluster.local"],
    ["a namespace of Pods", "shop.pod.cluster.local", "A", success, "cluster.local"],
    ["the zone itself", "cluster.local", "A", success, "cluster.local"],
    ["an unknown Service", shop("gone"), "A", nxdomain, "cluster.local"],
    ["a Service without an address yet", shop("pending"), "A", nxdomain, "cluster.local"],
    ["a headless Service without endpoints", shop("none"), "A", nxdomain, "cluster.local"],
    ["a headless Service without ready endpoints", shop("unready"), "A", nxdomain, "cluster.local"],
    ["an alias of an unknown Service", shop("dangling"), "A", nxdomain, "cluster.local"],
    ["a port without a name", shop("_81._tcp.web"), "SRV", nxdomain, "cluster.local"],
    ["an address outside the network of Pods", "8-8-8-8.shop.pod.cluster.local", "A", nxdomain, "cluster.local"],
    ["no address", "10-70-0-999.shop.pod.cluster.local", "A", nxdomain, "cluster.local"],
    ["an address without a Service", "10.0.134.10.in-addr.arpa", "PTR", nxdomain, "134.10.in-addr.arpa"],
    ["an address of a Pod without a name", "9.9.70.10.in-addr.arpa", "PTR", nxdomain, "70.10.in-addr.arpa"],
  ])("%s", (_, name, type, code, zone) => {
    const resolution = resolveName(index, networks, name, type);
    expect(resolution).toMatchObject({ code, authorities: [{ type: "SOA", name: zone }] });
    expect(resolution.outside).toBeUndefined();
  });

  test("aliases that form a loop", () => {
    expect(resolveName(index, networks, shop("loop"), "A")).toMatchObject({ code: servfail, answers: [] });
  });
});

test.each(["example.com", "cluster.local.example.com", "mycluster.local", "8.8.8.8.in-addr.arpa"])(
  "%s is left to other name servers",
  (name) => {
    expect(resolveName(index, networks, name, "A")).toMatchObject({ answers: [], outside: name });
  },
);

test("the target of an alias outside the cluster is left to other name servers", () => {
  expect(resolveName(index, networks, shop("outside"), "A")).toMatchObject({
    answers: [{ type: "CNAME", data: "example.com" }],
    outside: "example.com",
  });
});
