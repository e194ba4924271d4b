import type { PodObject, ServiceObject } from "@keelson/api-machinery/kinds";
import { expect, test } from "vitest";
import { choosePod, parsePortPair, parseTarget, podPort } from "./forward-target.ts";

test.each([
  ["web-0", { kind: "pod", name: "web-0" }],
  ["pod/web-0", { kind: "pod", name: "web-0" }],
  ["svc/web", { kind: "service", name: "web" }],
  ["Service/web", { kind: "service", name: "web" }],
])("parses the target %s", (text, target) => expect(parseTarget(text)).toEqual(target));

test.each(["", "deploy/web", "svc/", "svc/a/b", "Web", "../x"])("rejects the target %j", (text) =>
  expect(() => parseTarget(text)).toThrow(/is not a valid target/),
);

test.each([
  ["80", { local: undefined, remote: 80 }],
  ["8080:80", { local: 8080, remote: 80 }],
  [":80", { local: 0, remote: 80 }],
  ["0:80", { local: 0, remote: 80 }],
  ["8080:http", { local: 8080, remote: "http" }],
])("parses the port pair %s", (text, pair) => expect(parsePortPair(text)).toEqual(pair));

test.each(["", "0", "80:", "80:0", "65536", "70000:80", "1:2:3", "-1:80", "80:-"])("rejects the port pair %j", (text) =>
  expect(() => parsePortPair(text)).toThrow(/is not a valid port pair/),
);

function pod(name: string, created: string, phase: string, isReady: boolean, labels = { app: "web" }): PodObject {
  const ready = { type: "Ready", status: isReady ? "True" : "False" } as const;
  const ports = [{ name: "http", containerPort: 8000 }];
  return {
    metadata: { name, labels, creationTimestamp: created },
    spec: { containers: [{ name: "main", ports }] },
    status: { phase, conditions: [ready] },
  } as unknown as PodObject;
}
const service = {
  metadata: { name: "web" },
  spec: {
    selector: { app: "web" },
    ports: [
      { name: "web", port: 80, targetPort: "http" },
      { port: 9, targetPort: "other" },
    ],
  },
} as unknown as ServiceObject;

test("chooses the oldest ready Pod of a Service, otherwise the oldest running one", () => {
  const pods = [
    pod("stranger", "2026-01-01T00:00:00Z", "Running", true, { app: "other" }),
    pod("pending", "2026-01-01T00:00:00Z", "Pending", false),
    pod("new", "2026-01-04T00:00:00Z", "Running", true),
    pod("ready", "2026-01-03T00:00:00Z", "Running", true),
    pod("unready", "2026-01-02T00:00:00Z", "Running", false),
  ];
  expect(choosePod(service, pods)?.metadata.name).toBe("ready");
  expect(choosePod(service, [...pods.slice(0, 2), pods[4] ?? pods[0] ?? expect.fail()])?.metadata.name).toBe("unready");
  expect(choosePod(service, pods.slice(0, 2))).toBeUndefined();
  expect(choosePod({ ...service, spec: { ports: [] } }, pods)).toBeUndefined();
});

test("resolves ports by number and by name, through the Service first", () => {
  const web = pod("web-0", "", "Running", true);
  expect(podPort(8000, web)).toBe(8000);
  expect(podPort("http", web)).toBe(8000);
  expect(() => podPort("grpc", web)).toThrow('pod web-0 has no port "grpc"');
  expect(podPort(80, web, service)).toBe(8000);
  expect(podPort("web", web, service)).toBe(8000);
  expect(() => podPort(8000, web, service)).toThrow("service web has no port 8000; it has 80 (web), 9");
  expect(() => podPort(9, web, service)).toThrow('pod web-0 has no port "other", which service web names');
});
