import type { EndpointSliceObject, ServiceObject } from "@keelson/api-machinery/kinds";
import { expect, test } from "vitest";
import { hostPortsOf } from "./network-rules.ts";
import { networkNames } from "./network-names.ts";
import { machineRules, routerRules, type RuleSources } from "./service-rules.ts";

const names = networkNames("/data", "10.70", "10.134");
const service = (spec: object, name = "web"): ServiceObject => ({
  apiVersion: "v1",
  kind: "Service",
  metadata: { name, namespace: "default" },
  spec: { clusterIP: "10.134.0.9", ...spec },
});
const slice = (addresses: readonly string[], conditions: object = { ready: true }, port = 8080): EndpointSliceObject => ({
  apiVersion: "discovery.k8s.io/v1",
  kind: "EndpointSlice",
  metadata: { name: "web-1", namespace: "default", labels: { "kubernetes.io/service-name": "web" } },
  addressType: "IPv4",
  ports: [{ name: "http", port, protocol: "TCP" }],
  endpoints: addresses.map((address) => ({ addresses: [address], conditions })),
});
const ports = [{ name: "http", port: 80, protocol: "TCP" }];
const sources = (services: ServiceObject[], slices: EndpointSliceObject[] = [], rest: object = {}): RuleSources => ({
  services,
  slices,
  hostPorts: [],
  ...rest,
});

test("connections to a Service are spread over its ready endpoints", () => {
  const rules = routerRules(names, sources([service({ ports })], [slice(["10.70.0.1", "10.70.0.2"])]));
  expect(rules).toContain("elements = { 10.134.0.9 . tcp . 80 : goto d0 }");
  expect(rules).toContain("numgen random mod 2 vmap { 0 : goto d0-0, 1 : goto d0-1 }");
  expect(rules).toContain("meta l4proto tcp dnat to 10.70.0.2:8080");
});

test("with session affinity the client's address decides", () => {
  const rules = routerRules(names, sources([service({ ports, sessionAffinity: "ClientIP" })], [slice(["10.70.0.1"])]));
  expect(rules).toContain("jhash ip saddr mod 1 vmap");
});

test("a Service without endpoints gets no rule, so that its address is refused", () => {
  const rules = routerRules(names, sources([service({ ports })], [slice(["10.70.0.1"], { ready: false })]));
  expect(rules).not.toContain("10.134.0.9");
  expect(rules).toContain("ip daddr 10.134.0.0/16 meta l4proto tcp reject with tcp reset");
});

test("node ports lead to the same endpoints, on the node's address and on the machine", () => {
  const input = sources([service({ ports: [{ ...ports[0], nodePort: 30080 }] })], [slice(["10.70.0.1"])]);
  expect(routerRules(names, input)).toContain("elements = { tcp . 30080 : goto d1 }");
  expect(machineRules(names, input, 6443)).toContain("elements = { tcp . 30080 }");
});

test("the API server on loopback is reached through the node's address", () => {
  const rules = routerRules(
    names,
    sources([service({ ports: [{ ...ports[0], port: 443 }] })], [slice(["127.0.0.1"], {}, 6443)]),
  );
  expect(rules).toContain("dnat to 10.70.255.254:6443");
  expect(machineRules(names, sources([]), 6443)).toContain("tcp dport 6443 dnat to 127.0.0.1");
});

test("host ports of one protocol or address do not hide those of another", () => {
  const target = { host: "10.70.0.1", port: 80 };
  const hostPorts = [
    { port: 8080, protocol: "TCP", target },
    { port: 8080, protocol: "UDP", target },
    { port: 8080, protocol: "TCP", hostIP: names.nodeAddress, target },
  ];
  const rules = routerRules(names, sources([], [], { hostPorts }));
  expect(rules).toContain("elements = { tcp . 8080 : goto d0, udp . 8080 : goto d1 }");
  expect(rules).toContain(`elements = { ${names.nodeAddress} . tcp . 8080 : goto d2 }`);
  expect(machineRules(names, sources([], [], { hostPorts }), 6443)).toContain("udp dport 8080 dnat to 10.70.0.1:80");
});

test("a host port on loopback is reached from the machine only", () => {
  const hostPorts = [{ port: 8080, protocol: "TCP", hostIP: "127.0.0.1", target: { host: "10.70.0.1", port: 80 } }];
  const input = sources([], [], { hostPorts });
  expect(machineRules(names, input, 6443)).toContain(
    "ip daddr 127.0.0.1 fib daddr type local tcp dport 8080 dnat to 10.70.0.1:80",
  );
  expect(routerRules(names, input)).not.toContain("8080");
});

test("host ports receive only connections to addresses of the machine", () => {
  const target = { host: "10.70.0.1", port: 80 };
  for (const hostIP of ["8.8.8.8", "10.70.0.2", "10.134.0.1", "127.64.0.1"]) {
    const input = sources([], [], { hostPorts: [{ port: 443, protocol: "TCP", hostIP, target }] });
    expect(routerRules(names, input)).not.toContain("dnat to 10.70.0.1");
    const machine = machineRules(names, input, 6443);
    for (const line of machine.split("\n").filter((each) => each.includes("10.70.0.1:80")))
      expect(line).toContain("fib daddr type local");
    if (hostIP.startsWith("127.")) expect(machine).not.toContain("10.70.0.1:80");
  }
});

test("a host port does not hide the API server", () => {
  const hostPorts = [{ port: 6443, protocol: "TCP", target: { host: "10.70.0.1", port: 80 } }];
  const rules = machineRules(names, sources([], [], { hostPorts }), 6443);
  const accepts = rules.indexOf(`ip daddr { ${names.nodeAddress}, 127.0.0.1 } tcp dport 6443 accept`);
  expect(accepts).toBeGreaterThan(0);
  expect(accepts).toBeLessThan(rules.indexOf("dnat to 10.70.0.1:80"));
});

test("Pods of other data directories are kept out", () => {
  expect(machineRules(names, sources([]), 6443)).toContain(`iifname "kl*" iifname != ${names.link} oifname ${names.link} drop`);
});

test("headless Services, external names and IPv6 addresses get no rules", () => {
  const slices = [slice(["10.70.0.1"])];
  for (const spec of [{ clusterIP: "None" }, { type: "ExternalName" }, { clusterIP: "fd00::1" }]) {
    expect(routerRules(names, sources([service({ ports, ...spec })], slices))).not.toContain("dnat");
  }
});

test("text in hostIP never becomes a part of the rules", () => {
  const spec = (hostIP: string) => ({
    containers: [{ name: "c", image: "i", ports: [{ containerPort: 80, hostPort: 8080, hostIP }] }],
  });
  const status = { podIP: "10.70.0.1", hostIP: names.nodeAddress, phase: "Running" } as const;
  const pod = (hostIP: string) => ({ apiVersion: "v1", kind: "Pod", metadata: {}, spec: spec(hostIP), status }) as const;
  for (const hostIP of ["1.1.1.1 accept; flush ruleset;", "999.1.1.1", "10.0.0.0/8", "::", "localhost"]) {
    expect(hostPortsOf([pod(hostIP)], 6443)).toEqual([]);
  }
  expect(hostPortsOf([pod("127.0.0.1")], 6443)).toHaveLength(1);
});

test("only running Pods with their own address have host ports", () => {
  const containers = [{ name: "c", image: "i", ports: [{ containerPort: 80, hostPort: 8080 }, { containerPort: 81 }] }];
  const pod = (status: object) => ({ apiVersion: "v1", kind: "Pod", metadata: {}, spec: { containers }, status }) as const;
  const status = { podIP: "10.70.0.1", hostIP: names.nodeAddress, phase: "Running" };
  expect(hostPortsOf([pod(status)], 6443)).toEqual([{ port: 8080, protocol: "TCP", target: { host: "10.70.0.1", port: 80 } }]);
  const others = [{ phase: "Failed" }, { podIP: names.nodeAddress }, { podIP: "fd00::1" }];
  expect(
    hostPortsOf(
      others.map((each) => pod({ ...status, ...each })),
      6443,
    ),
  ).toEqual([]);
});

test("a host port never hides the API server", () => {
  const ports = [
    { containerPort: 80, hostPort: 6443 },
    { containerPort: 80, hostPort: 6443, protocol: "UDP" as const },
  ];
  const spec = { containers: [{ name: "c", image: "i", ports }] };
  const status = { podIP: "10.70.0.1", hostIP: names.nodeAddress, phase: "Running" } as const;
  const pod = { apiVersion: "v1", kind: "Pod", metadata: {}, spec, status } as const;
  expect(hostPortsOf([pod], 6443)).toMatchObject([{ port: 6443, protocol: "UDP" }]);
  expect(hostPortsOf([pod], 6444)).toMatchObject([{ protocol: "TCP" }, { protocol: "UDP" }]);
});
