import { Code, createClient as createRpcClient, createRouterTransport } from "@connectrpc/connect";
import type { DeepReadonly } from "@keelson/api-machinery";
import { createVirtualClock, type VirtualClock } from "@keelson/api-machinery/testing";
import { formatTime } from "@keelson/api-machinery/time";
import { startTestEnvironment, type TestEnvironment } from "@keelson/apiserver/testing";
import { type Client, createClient } from "@keelson/client";
import type { Cache } from "@keelson/controller";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { SandboxLifecycle } from "@keelson/sandbox/protocol";
import { Sandbox } from "../../api/sandbox.ts";
import type { AgentClient } from "../../fleet/agent-client.ts";
import { AgentError } from "../../protocol/agent-error.ts";
import { createLifecycleService } from "./lifecycle-service.ts";

const key = { namespace: "default", name: "one" };
const sandboxId = "0".repeat(32);
let environment: TestEnvironment;
let client: Client;
let clock: VirtualClock;
let expiries: (number | null)[];
let agentFailure: AgentError | undefined;

/** A client whose first read of the object is followed by another writer's change. */
const withRival = (rival: () => Promise<unknown>): Client => {
  let isFirst = true;
  const get = async (...parameters: Parameters<Client["get"]>): Promise<DeepReadonly<unknown>> => {
    const found = await client.get(...parameters);
    if (isFirst) await rival();
    isFirst = false;
    return found;
  };
  return { get, patch: client.patch.bind(client) } as unknown as Client;
};

function serve(as: Client = client) {
  const agent = {
    expire: async (_: string, ms: number | null) => {
      if (agentFailure !== undefined) throw agentFailure;
      expiries.push(ms);
    },
  } as unknown as AgentClient;
  const service = createLifecycleService({
    client: as,
    cache: { get: () => undefined } as unknown as Cache,
    onChange: () => () => {},
    clock,
    agentClient: () => agent,
    fast: { whenWritten: () => Promise.resolve() },
  });
  return createRpcClient(
    SandboxLifecycle,
    createRouterTransport((router) => router.service(SandboxLifecycle, service)),
  );
}

const renew = (seconds: number, as?: Client) =>
  serve(as).renew({ sandboxName: "one", expiry: { case: "expireInSeconds", value: BigInt(seconds) } });

const setStatus = (status: NonNullable<Sandbox["status"]>) =>
  client.applyStatus(Sandbox, { metadata: key, status }, { fieldManager: "test" });

const running = { phase: "Running", sandboxID: sandboxId, assignedPod: "agent" } as const;

beforeEach(async () => {
  environment = await startTestEnvironment({ crds: [Sandbox.crd] });
  client = createClient({ transport: environment.transport(), fieldManager: "test" });
  clock = createVirtualClock();
  expiries = [];
  agentFailure = undefined;
  await client.create(Sandbox, { metadata: key, spec: { image: "host", poolRef: "pool" } });
});

afterEach(() => environment.stop());

describe("a renewal", () => {
  it("is written and in force on the agent when it succeeds", async () => {
    await setStatus(running);
    const end = Math.floor(clock.now() / 1000) + 600;
    expect(await renew(600)).toMatchObject({ sandboxName: "one", phase: "Running", expireTimeSeconds: BigInt(end) });
    expect((await client.get(Sandbox, key)).spec.expireTime).toBe(formatTime(end * 1000));
    expect(expiries).toEqual([end * 1000]);
    const never = { sandboxName: "one", expiry: { case: "expireTimeSeconds" as const, value: 0n } };
    expect((await serve().renew(never)).expireTimeSeconds).toBe(0n);
    expect(expiries).toEqual([end * 1000, null]);
  });

  it("fails if the expiry was committed before, even between its read and its write", async () => {
    await setStatus(running);
    const commit = () => setStatus({ ...running, phase: "Terminating", expiredTime: formatTime(clock.now()) });
    await expect(renew(600, withRival(commit))).rejects.toMatchObject({ code: Code.FailedPrecondition });
    await expect(renew(600)).rejects.toMatchObject({ code: Code.FailedPrecondition });
    expect((await client.get(Sandbox, key)).spec.expireTime).toBeUndefined();
    expect(expiries).toEqual([]);
  });

  it("makes a commit that read the object before it fail", async () => {
    await setStatus(running);
    const { metadata } = await client.get(Sandbox, key);
    await renew(600);
    const stale = {
      metadata: { ...key, resourceVersion: metadata.resourceVersion },
      status: { phase: "Terminating" as const },
    };
    await expect(client.applyStatus(Sandbox, stale, { fieldManager: "controller" })).rejects.toThrow(/modified|conflict/i);
  });

  it("survives a concurrent write of another field", async () => {
    await setStatus(running);
    const label = () => client.patch(Sandbox, key, { type: "merge", body: { metadata: { labels: { a: "b" } } } });
    await renew(600, withRival(label));
    expect((await client.get(Sandbox, key)).metadata.labels).toMatchObject({ a: "b" });
  });

  it("fails if the agent has already stopped the sandbox, and of a sandbox that has ended", async () => {
    await setStatus(running);
    agentFailure = new AgentError("Rejected", "not found", { status: 404 });
    await expect(renew(600)).rejects.toMatchObject({
      code: Code.FailedPrecondition,
      rawMessage: expect.stringMatching(/expired/),
    });
    await setStatus({ ...running, phase: "Succeeded" });
    await expect(renew(600)).rejects.toMatchObject({ code: Code.FailedPrecondition });
  });

  it("leaves the agent of a paused sandbox alone, where time does not pass", async () => {
    await setStatus({ ...running, phase: "Paused", pausedTime: formatTime(clock.now()) });
    await renew(600);
    expect(expiries).toEqual([]);
  });

  it.each([
    ["no time", undefined, /^expire_time_seconds:/],
    ["a past time", { case: "expireTimeSeconds" as const, value: 5n }, /^expire_time_seconds: must be in the future/],
    ["a negative duration", { case: "expireInSeconds" as const, value: -5n }, /^expire_in_seconds: must be positive/],
    ["a time after the year 9999", { case: "expireInSeconds" as const, value: 999_999_999_999n }, /year 9999/],
  ])("with %s is rejected with the field's name", async (_, expiry, message) => {
    const renewal = serve().renew({ sandboxName: "one", ...(expiry && { expiry }) });
    await expect(renewal).rejects.toMatchObject({ code: Code.InvalidArgument, rawMessage: expect.stringMatching(message) });
  });
});
