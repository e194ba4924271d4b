import type { EndpointSliceObject, ServiceObject } from "@keelson/api-machinery/kinds";
import { expect, test } from "vitest";
import { hostsText } from "./hosts-text.ts";
import { serviceRoutes } from "./service-routes.ts";

const service = (spec: ServiceObject["spec"], name = "web"): ServiceObject => ({
  apiVersion: "v1",
  kind: "Service",
  metadata: { name, namespace: "default" },
  ...(spec === undefined ? {} : { spec }),
});
const slice = (endpoints: EndpointSliceObject["endpoints"], port = 8080, name = "web"): EndpointSliceObject => ({
  apiVersion: "discovery.k8s.io/v1",
  kind: "EndpointSlice",
  metadata: { name: `${name}-1`, namespace: "default", labels: { "kubernetes.io/service-name": name } },
  addressType: "IPv4",
  ports: [{ name: "http", port, protocol: "TCP" }],
  endpoints,
});
const ports = [{ name: "http", port: 80, targetPort: 8080 }];

test("a service routes to its ready endpoints on their own port", () => {
  const { routes } = serviceRoutes(
    [service({ clusterIP: "127.200.0.7", ports })],
    [
      slice([
        { addresses: ["127.64.0.1"], conditions: { ready: true } },
        { addresses: ["127.64.0.2"], conditions: { ready: false } },
      ]),
    ],
  );
  expect(routes.get("127.200.0.7:80")?.backends).toEqual([{ host: "127.64.0.1", port: 8080 }]);
});

test("without ready endpoints, terminating endpoints that still serve are used", () => {
  const { routes } = serviceRoutes(
    [service({ clusterIP: "127.200.0.7", ports })],
    [slice([{ addresses: ["127.64.0.2"], conditions: { ready: false, serving: true, terminating: true } }])],
  );
  expect(routes.get("127.200.0.7:80")?.backends).toEqual([{ host: "127.64.0.2", port: 8080 }]);
});

test.each<[string, ServiceObject["spec"]]>([
  ["a headless service", { clusterIP: "None", ports }],
  ["an address outside the loopback network", { clusterIP: "10.0.0.1", ports }],
  ["the machine's own address", { clusterIP: "127.0.0.1", ports }],
  ["UDP", { clusterIP: "127.200.0.7", ports: [{ name: "http", port: 53, protocol: "UDP" }] }],
  ["a service without a spec", undefined],
])("does not listen for %s", (_, spec) => {
  expect(serviceRoutes([service(spec)], []).routes.size).toBe(0);
});

test("listens on a limited number of ports per namespace and in total, those of older services first", () => {
  const many = (name: string, namespace: string, host: string, createdAt: string): ServiceObject => ({
    ...service({ clusterIP: host, ports: Array.from({ length: 4 }, (_, index) => ({ name: `p${index}`, port: 80 + index })) }),
    metadata: { name, namespace, creationTimestamp: createdAt },
  });
  const services = [
    many("new", "hostile", "127.200.0.1", "2026-01-03T00:00:00Z"),
    many("old", "hostile", "127.200.0.2", "2026-01-01T00:00:00Z"),
    many("other", "default", "127.200.0.3", "2026-01-04T00:00:00Z"),
  ];
  const perNamespace = serviceRoutes(services, [], { maxPerNamespace: 5, maxTotal: 100 });
  const hosts = (routes: ReadonlyMap<string, { readonly host: string }>): string[] =>
    [...routes.values()].map(({ host }) => host);
  const four = (host: string): string[] => Array.from({ length: 4 }, () => host);
  expect(hosts(perNamespace.routes)).toEqual([...four("127.200.0.2"), "127.200.0.1", ...four("127.200.0.3")]);
  expect([...perNamespace.limited]).toEqual(["hostile/new"]);
  const total = serviceRoutes(services, [], { maxPerNamespace: 100, maxTotal: 8 });
  expect(hosts(total.routes)).toEqual([...four("127.200.0.2"), ...four("127.200.0.1")]);
  expect([...total.limited]).toEqual(["default/other"]);
});

test("9,000 ports of a hostile service leave room for other services", () => {
  const hostile = Array.from({ length: 9_000 }, (_, index) => ({ name: `p${index}`, port: 1 + index }));
  const { routes } = serviceRoutes([service({ clusterIP: "127.200.0.1", ports: hostile }, "hostile")], []);
  expect(routes.size).toBe(1_000);
});

test("services resolve by all forms of their name, the short one only in their own namespace", () => {
  const services = [service({ clusterIP: "127.200.0.7", ports })];
  expect(hostsText("default", "127.0.0.1 localhost", services, [])).toBe(
    "127.0.0.1 localhost\n127.200.0.7 web.default.svc.cluster.local web.default.svc web.default web\n",
  );
  expect(hostsText("other", "", services, [])).toBe("127.200.0.7 web.default.svc.cluster.local web.default.svc web.default\n");
});

test("a headless service resolves to its ready endpoints, each also by host name", () => {
  const text = hostsText(
    "default",
    "",
    [service({ clusterIP: "None" })],
    [
      slice([
        { addresses: ["127.64.0.1"], hostname: "web-0", conditions: { ready: true } },
        { addresses: ["127.64.0.2"], hostname: "web-1", conditions: { ready: false } },
      ]),
    ],
  );
  expect(text).toContain("127.64.0.1 web-0.web.default.svc.cluster.local web-0.web.default.svc web-0.web.default web-0.web\n");
  expect(text).toContain("127.64.0.1 web.default.svc.cluster.local");
  expect(text).not.toContain("127.64.0.2");
});
