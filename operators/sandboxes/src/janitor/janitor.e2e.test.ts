import type { Client } from "@keelson/client";
import { watched } from "@keelson/client/testing";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { AgentClient } from "../fleet/agent-client.ts";
import { connectAgent } from "../testing/connect-agent.ts";
import type { SandboxStatus } from "../protocol/protocol.ts";
import { Sandbox } from "../api/sandbox.ts";
import { type LocalSandboxes, namespace, startLocalSandboxes } from "../testing/local-sandboxes.ts";

let local: LocalSandboxes;
let agent: AgentClient;
const id = "0123456789abcdef0123456789abcdef";

beforeEach(async () => {
  local = await startLocalSandboxes();
  await local.pool({ poolMin: 1, poolMax: 1 }, 4);
  agent = await connectAgent(local.client, namespace, "pool-agent-0");
});

afterEach(() => local.stop());

/** Has the agent run a program behind the operator's back. */
async function runUnknown(claimName: string, claimUid = ""): Promise<void> {
  const unknown = { sandboxId: id, claimUid, claimName, namespace, image: "host", command: ["sleep", "600"] };
  expect(await agent.create(unknown)).toMatchObject({ success: true });
}

/** Waits until the agent's sandboxes are as wanted. */
async function agentHas(isReached: (sandboxes: readonly SandboxStatus[]) => boolean): Promise<void> {
  const control = new AbortController();
  for await (const { sandboxStatuses } of agent.watch(control.signal)) if (isReached(sandboxStatuses)) break;
  control.abort();
}

const isGone = (sandboxes: readonly SandboxStatus[]): boolean => !sandboxes.some((each) => each.sandboxId === id);

describe("the janitor", () => {
  it("deletes a sandbox without an object, and no other", async () => {
    await local.sandbox("mine");
    await local.phase("mine", "Running");
    await runUnknown("ghost");
    await agentHas(isGone);
    const { sandboxStatuses } = await agent.status();
    expect(sandboxStatuses.map((each) => [each.claimName, each.phase])).toEqual([["mine", "running"]]);
  });

  it("deletes a sandbox whose object was recreated", async () => {
    await local.sandbox("mine");
    await local.phase("mine", "Running");
    await runUnknown("mine", "00000000-0000-0000-0000-000000000000");
    await agentHas(isGone);
    expect((await agent.status()).sandboxStatuses).toHaveLength(1);
  });

  it("deletes nothing while the API is unavailable, and does afterwards", async () => {
    let asked = 0;
    let wake: () => void = () => {};
    const twice = new Promise<void>((resolve) => (wake = resolve));
    let isAway = true;
    const { client } = local;
    const get: Client["get"] = (type, ...rest) => {
      if (!isAway || type.kind !== Sandbox.kind) return client.get(type, ...rest);
      if (++asked === 2) wake();
      return Promise.reject(new Error("the API is away"));
    };
    // Methods are of the object's own or its class's: whatever is not `get` is the client's.
    await local.restart(
      new Proxy(client, {
        get(target, name) {
          if (name === "get") return get;
          const value: unknown = Reflect.get(target, name, target);
          return typeof value === "function" ? (value.bind(target) as unknown) : value;
        },
      }),
    );
    await runUnknown("ghost");
    // The second look came with another status: the first had ended nothing.
    await twice;
    expect(isGone((await agent.status()).sandboxStatuses)).toBe(false);
    isAway = false;
    await agentHas(isGone);
  });

  it("marks an object whose agent lost its sandbox as Lost, or recreates it", async () => {
    await local.sandbox("manual");
    await local.sandbox("auto", { failurePolicy: "AutoRecreate" });
    const [manual, auto] = [await local.phase("manual", "Running"), await local.phase("auto", "Running")];
    for (const each of [manual, auto]) await agent.delete(each?.status?.sandboxID ?? "");
    expect((await local.phase("manual", "Lost"))?.status?.message).toMatch(/no longer has it; reset it/);
    const isAnew = (each: typeof auto): boolean =>
      each?.status?.phase === "Running" && each.status.sandboxID !== auto?.status?.sandboxID;
    await watched(local.client, Sandbox, "auto", isAnew);
    expect((await agent.status()).allocated).toBe(1);
  });
});
