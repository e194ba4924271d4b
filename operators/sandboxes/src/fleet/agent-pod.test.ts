import { randomBytes } from "node:crypto";
import type { PodObject } from "@keelson/api-machinery/kinds";
import { describe, expect, it } from "vitest";
import type { SandboxPool } from "../api/sandbox-pool.ts";
import { parseAgentPod, agentPod, type AgentPlacement, agentSecret, readToken, runtimeProblem } from "./agent-pod.ts";

const pool = (spec: Partial<SandboxPool["spec"]> = {}): SandboxPool =>
  ({
    apiVersion: "sandbox.fast.io/v1alpha1",
    kind: "SandboxPool",
    metadata: { name: "pool", namespace: "ns", uid: "u" },
    spec,
  }) as SandboxPool;
const local: AgentPlacement = {
  driver: "bubblewrap",
  tools: {
    kind: "local",
    command: ["node", "agent.js"],
    dir: "/data/agents",
    imageDir: "/data/images",
    volumeDir: "/data/volumes",
  },
};
const image: AgentPlacement = { driver: "bubblewrap", tools: { kind: "image", image: "keelson:1" } };
const template = {
  metadata: { labels: { team: "a", app: "mine" } },
  spec: {
    nodeSelector: { disk: "ssd" },
    initContainers: [{ name: "infra-init", image: "alpine" }],
    containers: [
      { name: "side", image: "side:1" },
      {
        name: "agent",
        image: "fast-sandbox/agent:dev",
        env: [
          { name: "AGENT_CAPACITY", value: "99" },
          { name: "A", value: "b" },
        ],
      },
    ],
  },
} as unknown as NonNullable<SandboxPool["spec"]["agentTemplate"]>;

const variables = (pod: { readonly spec: PodObject["spec"] }): Record<string, unknown> =>
  Object.fromEntries((pod.spec.containers[0]?.env ?? []).map(({ name, value, valueFrom }) => [name, value ?? valueFrom]));

describe("an agent's Pod", () => {
  it("on this machine runs only the agent, with the settings of the pool's template", () => {
    const pod = agentPod(pool({ agentTemplate: template, maxSandboxesPerPod: 3 }), "pool-agent-0", "secret-1", local);
    expect(pod.metadata).toMatchObject({ labels: { team: "a", app: "sandbox-agent", "fast-sandbox.io/pool": "pool" } });
    expect(pod.spec).toMatchObject({
      nodeSelector: { disk: "ssd" },
      restartPolicy: "Always",
      automountServiceAccountToken: false,
    });
    expect(pod.spec.initContainers).toBeUndefined();
    expect(pod.spec.containers.map(({ name, command }) => [name, command])).toEqual([["agent", ["node", "agent.js"]]]);
    expect(variables(pod)).toMatchObject({
      AGENT_CAPACITY: "3",
      A: "b",
      AGENT_DIR: "/data/agents/$(POD_UID)",
      AGENT_VOLUME_DIR: "/data/volumes",
    });
    expect(variables(pod).AGENT_TOKEN).toEqual({ secretKeyRef: { name: "secret-1", key: "token" } });
  });

  it("uses gVisor if its pool does, which is rejected on a machine without runsc", () => {
    const gvisor = pool({ runtimeType: "gvisor" });
    expect(variables(agentPod(gvisor, "pool-agent-0", "secret-1", local)).AGENT_DRIVER).toBe("gvisor");
    expect(variables(agentPod(pool({ runtimeType: "container" }), "p", "s", local)).AGENT_DRIVER).toBe("bubblewrap");
    const missing = (): undefined => undefined;
    expect(runtimeProblem(gvisor, local, missing)).toMatch(/^runtimeType: gvisor requires runsc, which is not installed/);
    expect(runtimeProblem(gvisor, local, () => "/usr/bin/runsc")).toBeUndefined();
    expect(runtimeProblem(gvisor, image, missing)).toBeUndefined();
    expect(runtimeProblem(pool(), local, missing)).toBeUndefined();
  });

  it("in a cluster keeps the template's containers, image and init containers", () => {
    const pod = agentPod(pool({ agentTemplate: template }), "pool-agent-0", "secret-1", image);
    expect(pod.spec.initContainers).toHaveLength(1);
    expect(pod.spec.containers.map((each) => each.image)).toEqual(["fast-sandbox/agent:dev", "side:1"]);
    expect(agentPod(pool(), "pool-agent-0", "secret-1", image).spec.containers).toMatchObject([
      { name: "agent", image: "keelson:1" },
    ]);
  });

  it("passes the default limits and containerd's socket to the agent", () => {
    const placement: AgentPlacement = { ...local, driver: "containerd", containerdSocket: "/run/c.sock" };
    const pod = agentPod(pool({ resources: { limits: { cpu: 1, memory: "64Mi" } } }), "pool-agent-0", "secret-1", placement);
    expect(variables(pod)).toMatchObject({
      AGENT_DRIVER: "containerd",
      CONTAINERD_SOCKET: "/run/c.sock",
      AGENT_SANDBOX_CPU: "1",
      AGENT_SANDBOX_MEMORY: "64Mi",
    });
  });

  it("is an agent only if a pool owns it, whatever its labels say", () => {
    const pod = { ...agentPod(pool(), "a", "secret-1", local), apiVersion: "v1", kind: "Pod" } as PodObject;
    pod.status = { podIP: "fd00::1", phase: "Running" };
    expect(parseAgentPod(pod)).toMatchObject({
      pool: "pool",
      url: "https://[fd00::1]:5758",
      secret: "secret-1",
      isEnding: false,
      isDead: false,
    });
    expect(parseAgentPod({ ...pod, metadata: { ...pod.metadata, ownerReferences: [] } })).toBeUndefined();
  });

  it("has its own key", () => {
    const [one, other] = [agentSecret(pool(), "s", randomBytes), agentSecret(pool(), "s", randomBytes)].map((secret) =>
      readToken({ apiVersion: "v1", kind: "Secret", ...secret }),
    );
    expect(one).toMatch(/^[0-9a-f]{64}$/);
    expect(one).not.toBe(other);
    expect(() => readToken({ apiVersion: "v1", kind: "Secret", metadata: { name: "s" } })).toThrow(/Secret s has no token/);
  });
});
