import { mkdtempSync, readFileSync, realpathSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { systemClock } from "@keelson/api-machinery/time";
import { silentLogger } from "@keelson/controller";
import type { Driver, Exited, Program } from "@keelson/execution";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { hostImages } from "./image-store.ts";
import { openAgentDriver } from "../agent/run-agent.ts";
import { SandboxManager } from "./sandbox-manager.ts";

let dir: string;
let driver: Driver;
let manager: SandboxManager;
const sandboxId = "0".repeat(32);

beforeEach(async () => {
  dir = realpathSync(mkdtempSync(join(tmpdir(), "sandbox-limits-")));
  driver = await openAgentDriver({ driver: "bubblewrap" }, dir, systemClock);
  manager = new SandboxManager({
    agentId: "agent",
    nodeName: "node",
    capacity: 2,
    driver,
    images: hostImages,
    address: "127.0.0.1",
    clock: systemClock,
    log: silentLogger,
    expiryFile: join(dir, "expiries.json"),
    maxProcesses: 24,
  });
});

afterEach(async () => {
  await manager.shutDown();
  await driver.close();
  rmSync(dir, { recursive: true, force: true });
});

async function runToEnd(script: string, limits: { readonly memory?: string } = {}): Promise<[Program, Exited]> {
  const claim = { claimUid: "", claimName: "one", namespace: "default" };
  const answer = await manager.create({ sandboxId, ...claim, image: "host", command: ["sh", "-c", script], ...limits });
  expect(answer).toMatchObject({ success: true });
  const program = driver.get(sandboxId);
  if (program === undefined) throw new Error("the sandbox is not there");
  return [program, await program.exited()];
}

/* Where the machine lets an agent make no cgroups, a program says so, and that is what is tested. */
describe("a sandbox", () => {
  it("cannot exceed its process limit with a fork bomb", async () => {
    const script = "i=0; while [ $i -lt 60 ]; do sleep 60 & i=$((i + 1)); done; echo made $i";
    const [program] = await runToEnd(script);
    const output = readFileSync(program.logs.stdout, "utf8");
    if (program.limits.applied.pids === undefined) {
      expect(program.limits.message).toMatch(/pids/);
      expect(output).toBe("made 60\n");
      return;
    }
    expect(output).toBe("");
    expect(readFileSync(program.logs.stderr, "utf8")).toMatch(/fork/i);
  });

  it("shares its process limit with commands alongside its program", async () => {
    const claim = { claimUid: "", claimName: "one", namespace: "default" };
    await manager.create({ sandboxId, ...claim, image: "host", command: ["sleep", "600"] });
    const program = driver.get(sandboxId);
    const script = "i=0; while [ $i -lt 60 ]; do sleep 60 >/dev/null 2>&1 & i=$((i + 1)); done; echo made $i; kill $(jobs -p)";
    const session = await program?.exec({ command: ["sh", "-c", script] });
    if (program === undefined || session?.stderr === undefined) throw new Error("the command is not there");
    const [output, errors] = await Promise.all([text(session.stdout), text(session.stderr)]);
    if (program.limits.applied.pids === undefined) expect(output).toBe("made 60\n");
    else expect([output, /fork/i.test(errors)]).toEqual(["", true]);
  });

  it("is measured, with its limits", async () => {
    const claim = { claimUid: "", claimName: "one", namespace: "default" };
    await manager.create({ sandboxId, ...claim, image: "host", command: ["sleep", "600"] });
    const program = driver.get(sandboxId);
    const write = ["sh", "-c", "head -c 5000000 /dev/zero >/work/one; head -c 1000000 /dev/zero >/tmp/two"] as const;
    const session = await program?.exec({ command: write });
    session?.stdin.end();
    expect(await session?.exited()).toMatchObject({ exitCode: 0 });
    const { applied = {} } = program?.limits ?? {};
    const [usage] = await manager.usages.measure();
    expect(usage).toMatchObject({ sandboxId, pids: expect.any(Number), memoryBytes: expect.any(Number) });
    expect(usage?.limits.pids).toBe(applied.pids);
    if (applied.diskBytes === undefined) return expect(usage?.diskBytes).toBeUndefined();
    expect(usage?.limits.diskBytes).toBe(2 * applied.diskBytes);
    expect(usage?.diskBytes).toBeGreaterThan(6_000_000);
    expect(usage?.diskBytes).toBeLessThan(7_000_000);
  });

  it("is killed above its memory limit", async () => {
    // Without the limit it stops by itself at 200 MB.
    const [program, exited] = await runToEnd("head -c 200000000 /dev/zero | tail -c 200000000 >/dev/null", { memory: "48Mi" });
    if (program.limits.applied.memoryBytes === undefined) {
      expect(program.limits.message).toMatch(/memory/);
      expect(exited.exitCode).toBe(0);
      return;
    }
    expect(exited.exitCode).toBe(137);
  });
});
