import { Code } from "@connectrpc/connect";
import { watched } from "@keelson/client/testing";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { Sandbox } from "./api/sandbox.ts";
import { type LocalSandboxes, namespace, startLocalSandboxes } from "./testing/local-sandboxes.ts";

let local: LocalSandboxes;
const isRoot = process.getuid?.() === 0;

beforeAll(async () => {
  local = await startLocalSandboxes();
  await local.pool({ poolMin: 1, poolMax: 1 }, 16);
});

afterAll(() => local.stop());

async function run(sandboxName: string, ...command: string[]): Promise<string> {
  let output = "";
  async function* requests() {
    yield { request: { case: "start" as const, value: { sandboxName, command } } };
    yield { request: { case: "closeStdin" as const, value: true } };
  }
  for await (const { response } of local.streams.exec(requests())) {
    if (response.case === "stdout") output += Buffer.from(response.value).toString();
  }
  return output;
}

describe("the lifecycle of a sandbox", () => {
  // Needs a cgroup of version 2.
  it.runIf(isRoot)("pauses and resumes, keeps its processes, and rejects commands in the meantime", async () => {
    await local.sandbox("pausing", { expireTime: new Date(Date.now() + 3_600_000).toISOString() });
    await local.phase("pausing", "Running");
    const request = { sandboxName: "pausing" };
    const startTime = ["cut", "-d", " ", "-f", "22", "/proc/2/stat"];
    const before = await run("pausing", ...startTime);
    expect(await local.lifecycle.pause(request)).toMatchObject({ phase: "Paused" });
    expect(await local.lifecycle.pause(request)).toMatchObject({ phase: "Paused" });
    await expect(run("pausing", "true")).rejects.toMatchObject({ code: Code.FailedPrecondition });
    await local.restart();
    expect(await local.lifecycle.resume(request)).toMatchObject({ phase: "Running" });
    const { status } = (await local.phase("pausing", "Running")) ?? {};
    expect(status?.pausedTime).toBeUndefined();
    expect(status?.pausedSeconds).toBeGreaterThan(0);
    expect(Date.parse(status?.expireTime ?? "")).toBeGreaterThan(Date.parse(status?.expiryBase?.expireTime ?? ""));
    expect(await run("pausing", ...startTime)).toBe(before);
  });

  it.runIf(isRoot)("can be deleted while it is paused", async () => {
    await local.sandbox("frozen");
    await local.phase("frozen", "Running");
    await local.lifecycle.pause({ sandboxName: "frozen" });
    await local.fastPath.deleteSandbox({ sandboxName: "frozen" });
    await local.phase("frozen", undefined);
  });

  it("restarts with another id, and does not restart, renew or resume what does not exist", async () => {
    await local.sandbox("again");
    const first = await local.phase("again", "Running");
    const second = await local.lifecycle.restart({ sandboxName: "again" });
    expect(second.phase).toBe("Running");
    expect(second.sandboxId).not.toBe(first?.status?.sandboxID);
    for (const call of ["pause", "resume", "restart"] as const)
      await expect(local.lifecycle[call]({ sandboxName: "no-such" })).rejects.toMatchObject({ code: Code.NotFound });
  });

  it("acts on a sandbox right after its FAST create", async () => {
    const create = (name: string) =>
      local.fastPath.createSandbox({ name, image: "host", poolRef: "pool", command: ["sleep", "600"] });
    await create("renewed");
    const expiry = { case: "expireInSeconds" as const, value: 600n };
    expect((await local.lifecycle.renew({ sandboxName: "renewed", expiry })).sandboxName).toBe("renewed");
    await create("used");
    expect(await run("used", "echo", "word")).toBe("word\n");
  });

  it("expires when it is idle or old, and is deleted after its time to live", async () => {
    await local.sandbox("idle", { idleTimeoutSeconds: 1 });
    await local.sandbox("old", { maxAgeSeconds: 1 });
    await local.sandbox("short", { command: ["true"], ttlSecondsAfterFinished: 0 });
    expect((await local.phase("idle", "Expired"))?.status?.message).toBe("was idle for 1 s");
    expect((await local.phase("old", "Expired"))?.status?.message).toBe("reached its maximum age of 1 s");
    await local.phase("short", undefined);
    const expiry = { case: "expireInSeconds" as const, value: 600n };
    await expect(local.lifecycle.renew({ sandboxName: "old", expiry })).rejects.toMatchObject({
      code: Code.FailedPrecondition,
    });
  });

  it("is not idle while a command runs", async () => {
    await local.sandbox("busy");
    await local.phase("busy", "Running");
    // Longer than the idle time; a sandbox that expires kills the command.
    const command = run("busy", "sh", "-c", "echo up >up; sleep 3; echo done");
    await run("busy", "sh", "-c", "until [ -s up ]; do sleep 0.05; done");
    const body = { spec: { idleTimeoutSeconds: 1 } };
    await local.client.patch(Sandbox, { namespace, name: "busy" }, { type: "merge", body });
    expect(await command).toBe("done\n");
    await watched(local.client, Sandbox, "busy", (each) => each?.status?.phase === "Expired");
  });
});
