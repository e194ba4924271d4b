import { startTestEnvironment } from "@keelson/apiserver/testing";
import { createClient } from "@keelson/client";
import { expect, it } from "vitest";
import { Sandbox } from "./api/sandbox.ts";
import { SandboxPool } from "./api/sandbox-pool.ts";
import { sandboxes } from "./operator.ts";

const crds = sandboxes.resources.map((resource) => resource.crd);
const base = { image: "alpine:latest", poolRef: "pool" } as Sandbox["spec"];

it("accepts the original's manifests without unknown fields, and applies defaults", async () => {
  await using environment = await startTestEnvironment({ crds });
  const client = createClient({ transport: environment.transport(), fieldManager: "test" });
  const spec = {
    ...base,
    command: ["/bin/sleep"],
    args: ["3600"],
    envs: [{ name: "A", value: "b" }],
    workingDir: "/tmp",
    expireTime: "2030-01-01T00:00:00Z",
    exposedPorts: [8080, 65535],
    resetRevision: "2026-01-01T00:00:00.123456789Z",
  };
  const sandbox = await client.create(
    Sandbox,
    { metadata: { name: "a", namespace: "default" }, spec: spec as Sandbox["spec"] },
    {
      fieldValidation: "Strict",
    },
  );
  expect(sandbox.spec).toEqual({ ...spec, network: "none", failurePolicy: "Manual", recoveryTimeoutSeconds: 60 });
  const pool = {
    capacity: { poolMin: 1, poolMax: 3, bufferMin: 1, bufferMax: 2 },
    maxSandboxesPerPod: 5,
    runtimeType: "container",
    agentTemplate: { spec: { containers: [{ name: "agent", image: "fast-sandbox/agent:dev" }] } },
  };
  await client.create(
    SandboxPool,
    { metadata: { name: "p", namespace: "default" }, spec: pool as SandboxPool["spec"] },
    {
      fieldValidation: "Strict",
    },
  );
});

it.each([
  ["no image", { image: undefined }, /spec\.image/],
  ["an empty image", { image: "" }, /spec\.image/],
  ["an empty poolRef", { poolRef: "" }, /spec\.poolRef/],
  ["port 0", { exposedPorts: [0] }, /spec\.exposedPorts\[0\]/],
  ["port 65536", { exposedPorts: [80, 65536] }, /spec\.exposedPorts\[1\]/],
  ["a port twice", { exposedPorts: [80, 80] }, /spec\.exposedPorts\[1\]: Duplicate value/],
  ["a relative workingDir", { workingDir: "tmp" }, /spec\.workingDir/],
  ["an invalid expireTime", { expireTime: "tomorrow" }, /spec\.expireTime/],
  ["an invalid resetRevision", { resetRevision: "1" }, /spec\.resetRevision/],
  ["a negative expireTimeSeconds", { expireTimeSeconds: -1 }, /spec\.expireTimeSeconds/],
  ["an unknown consistencyMode", { consistencyMode: "quick" }, /spec\.consistencyMode/],
  ["an unknown failurePolicy", { failurePolicy: "Never" }, /spec\.failurePolicy/],
  ["a variable without a name", { envs: [{ value: "x" }] }, /spec\.envs\[0\]\.name/],
  ["a zero cpu limit", { resources: { limits: { cpu: "0m" } } }, /spec\.resources\.limits\.cpu/],
  ["a negative memory limit", { resources: { limits: { memory: "-1Mi" } } }, /spec\.resources\.limits\.memory/],
  [
    "networkAllow without allowList",
    { network: "internet", networkAllow: [{ host: "a.b" }] },
    /spec.*networkAllow requires network: allowList/,
  ],
  [
    "a rule without a destination",
    { network: "allowList", networkAllow: [{ ports: [1] }] },
    /spec\.networkAllow\[0\].*either host or cidr/,
  ],
  [
    "a rule with an upper-case host",
    { network: "allowList", networkAllow: [{ host: "A.b" }] },
    /spec\.networkAllow\[0\]\.host/,
  ],
  ["a rule with a bad cidr", { network: "allowList", networkAllow: [{ cidr: "10.0.0" }] }, /spec\.networkAllow\[0\]\.cidr/],
  ["an unknown network", { network: "host" }, /spec\.network/],
  ["a recoveryTimeoutSeconds of 0", { recoveryTimeoutSeconds: 0 }, /spec\.recoveryTimeoutSeconds/],
])("rejects %s and names the field", async (_, change, message) => {
  await using environment = await startTestEnvironment({ crds: [Sandbox.crd] });
  const client = createClient({ transport: environment.transport(), fieldManager: "test" });
  const spec = { ...base, ...change } as Sandbox["spec"];
  await expect(client.create(Sandbox, { metadata: { name: "a", namespace: "default" }, spec })).rejects.toThrow(message);
});

it("accepts every kind of network access", async () => {
  await using environment = await startTestEnvironment({ crds: [Sandbox.crd] });
  const client = createClient({ transport: environment.transport(), fieldManager: "test" });
  const networkAllow = [{ host: "*.example.com", ports: [443] }, { cidr: "10.0.0.0/8" }];
  for (const [name, change] of Object.entries({ i: { network: "internet" }, a: { network: "allowList", networkAllow } })) {
    const spec = { ...base, ...change } as Sandbox["spec"];
    await expect(client.create(Sandbox, { metadata: { name, namespace: "default" }, spec })).resolves.toMatchObject({
      spec: change,
    });
  }
});

it.each([
  ["a negative poolMin", { capacity: { poolMin: -1 } }, /spec\.capacity\.poolMin/],
  ["no slot on an agent", { maxSandboxesPerPod: 0 }, /spec\.maxSandboxesPerPod/],
  ["an invalid memory limit", { resources: { limits: { memory: "much" } } }, /spec\.resources\.limits\.memory/],
  ["an unknown runtimeType", { runtimeType: "vm" }, /spec\.runtimeType/],
])("rejects a pool with %s and names the field", async (_, spec, message) => {
  await using environment = await startTestEnvironment({ crds: [SandboxPool.crd] });
  const client = createClient({ transport: environment.transport(), fieldManager: "test" });
  const pool = { metadata: { name: "a", namespace: "default" }, spec: spec as SandboxPool["spec"] };
  await expect(client.create(SandboxPool, pool)).rejects.toThrow(message);
});
