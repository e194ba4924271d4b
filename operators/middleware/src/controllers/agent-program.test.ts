import type { Container, PodObject } from "@keelson/api-machinery/kinds";
import { describe, expect, it } from "vitest";
import { withAgentProgram } from "./agent-program.ts";

const program = { command: ["node", "keelson.js", "middleware"], image: "keelson:1" };

const pod = (...containers: Container[]): PodObject => ({
  apiVersion: "v1",
  kind: "Pod",
  metadata: { name: "cache-redis-nodes-0" },
  spec: { containers, volumes: [{ name: "data", emptyDir: {} }] },
});

describe("a Pod whose container starts the agent", () => {
  const { spec } = withAgentProgram(
    pod(
      { name: "redis", image: "redis:7.2", command: [...program.command, "agent"], args: ["--engine=redis"] },
      { name: "exporter", image: "exporter:1", command: ["node", "exporter.js"] },
    ),
    program,
  );

  it("copies the agent from its image, and starts the copy", () => {
    expect(spec.initContainers).toMatchObject([
      {
        name: "keelson-agent",
        image: "keelson:1",
        command: ["keelson", "middleware", "copy-agent", "/keelson-agent"],
        volumeMounts: [{ name: "keelson-agent", mountPath: "/keelson-agent" }],
      },
    ]);
    expect(spec.containers[0]).toMatchObject({
      image: "redis:7.2",
      command: [
        "/keelson-agent/loader",
        "--library-path",
        "/keelson-agent/lib",
        "/keelson-agent/node",
        "/keelson-agent/agent.mjs",
        "agent",
      ],
      args: ["--engine=redis"],
      volumeMounts: [{ name: "keelson-agent", mountPath: "/keelson-agent", readOnly: true }],
    });
    expect(spec.volumes?.map(({ name }) => name)).toEqual(["data", "keelson-agent"]);
  });

  it("keeps its other containers", () => {
    expect(spec.containers[1]).toEqual({ name: "exporter", image: "exporter:1", command: ["node", "exporter.js"] });
  });
});

describe("a Pod with requests and limits", () => {
  const resources = {
    requests: { cpu: "1", memory: "1Gi", "ephemeral-storage": "100Mi" },
    limits: { cpu: "1", memory: "1Gi", "ephemeral-storage": "100Mi" },
  };
  const { spec } = withAgentProgram(
    pod({ name: "redis", image: "redis:7.2", command: [...program.command, "agent"], resources }),
    program,
  );

  it("keeps its quality of service, and has room for the agent", () => {
    const amounts = { cpu: "1", memory: "1Gi", "ephemeral-storage": "228Mi" };
    expect(spec.containers[0]?.resources).toEqual({ requests: amounts, limits: amounts });
    expect(spec.initContainers?.[0]?.resources).toEqual({ requests: amounts, limits: amounts });
  });
});

it.each<[string, Container]>([
  ["its own agent", { name: "db", image: "db:1", command: ["db-agent"] }],
  ["no agent", { name: "web", image: "web:1" }],
])("keeps a Pod with %s as it is", (_, container) => {
  const unchanged = pod(container);
  expect(withAgentProgram(unchanged, program)).toBe(unchanged);
});
