import { chmodSync, mkdtempSync, readFileSync, realpathSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { systemClock } from "@keelson/api-machinery/time";
import { silentLogger } from "@keelson/controller";
import { startLocalContainerd } from "@keelson/execution/testing";
import { describe, expect, it } from "vitest";
import { openAgentDriver } from "../agent/run-agent.ts";
import { hostImages } from "../sandbox/image-store.ts";
import { SandboxManager } from "../sandbox/sandbox-manager.ts";
import { FileHelpers } from "./file-helpers.ts";
import { FolderWatches } from "./folder-watches.ts";
import { watchProcessName } from "./watch-program.ts";

const isRoot = process.getuid?.() === 0;

/** The child process with this title. */
function childOf(title: string): number {
  const children = readFileSync(`/proc/self/task/${process.pid}/children`, "latin1").split(" ").filter(Boolean);
  return Number(children.find((pid) => readFileSync(`/proc/${pid}/cmdline`, "latin1").startsWith(title)) ?? 0);
}

/** The status of the child process with this title, in /proc. */
const processStatus = (title: string): string => readFileSync(`/proc/${childOf(title)}/status`, "latin1");

/** The cgroups of a process, of the controllers that limit a sandbox. */
const cgroupsOf = (pid: number): readonly string[] =>
  readFileSync(`/proc/${pid}/cgroup`, "latin1")
    .split("\n")
    .filter((line) => /:(?:|.*\b(?:cpu|memory|pids)\b.*):/.test(line));

describe.runIf(isRoot).each(["bubblewrap", "containerd"] as const)("the helper of a sandbox of the %s driver", (name) => {
  it("runs as the sandbox's user on the host, without groups or capabilities, and ends with the sandbox", async () => {
    const dir = realpathSync(mkdtempSync(join(tmpdir(), "files-")));
    chmodSync(dir, 0o711);
    const containerd = name === "containerd" ? await startLocalContainerd(join(dir, "containerd")) : undefined;
    const isolation = { driver: name, ...(containerd && { containerdSocket: containerd.socket }) };
    const driver = await openAgentDriver(isolation, join(dir, "agent"), systemClock);
    const manager = new SandboxManager({
      ...{ agentId: "agent", nodeName: "node", capacity: 1, driver, images: hostImages, address: "127.0.0.1" },
      ...{ clock: systemClock, log: silentLogger, expiryFile: join(dir, "expiries.json") },
    });
    const helpers = new FileHelpers(systemClock);
    const sandboxId = "1".repeat(32);
    const claim = { claimUid: "", claimName: "one", namespace: "default" };
    await manager.create({ sandboxId, ...claim, image: "host", command: ["sleep", "600"] });
    const program = driver.get(sandboxId);
    if (program === undefined) throw new Error("the sandbox does not exist");
    const upload = "0".repeat(32);
    await helpers.run(program, { kind: "write", path: "one", upload, offset: 0, data: Buffer.from("text") });
    await helpers.run(program, { kind: "commit", path: "one", upload, mode: 0o600 });
    const [usage] = await manager.usages.measure();
    expect(usage?.limits.diskBytes).toBeGreaterThan(0);
    expect(usage?.diskBytes).toBeGreaterThan(0);
    const status = processStatus("keelson-sandbox-files");
    const uid = Number(/^Uid:\t(\d+)\t(\d+)/m.exec(status)?.[1]);
    expect(uid).toBeGreaterThan(65_535);
    expect(status).toMatch(new RegExp(`^Uid:\t${uid}\t${uid}\t${uid}\t${uid}$`, "m"));
    expect(status).toMatch(/^Groups:\s*$/m);
    for (const set of ["CapPrm", "CapEff", "CapInh", "CapAmb"]) expect(status).toMatch(new RegExp(`^${set}:\t0+$`, "m"));
    const watches = new FolderWatches(systemClock);
    const watch = await watches.open(program, { path: ".", isRecursive: true });
    const permissions = processStatus(watchProcessName);
    expect(permissions).toMatch(new RegExp(`^Uid:\t${uid}\t${uid}\t${uid}\t${uid}$`, "m"));
    expect(permissions).toMatch(/^Groups:\s*$/m);
    for (const set of ["CapPrm", "CapEff", "CapInh", "CapAmb", "CapBnd"])
      expect(permissions).toMatch(new RegExp(`^${set}:\t0+$`, "m"));
    expect(permissions).toMatch(/^NoNewPrivs:\t1$/m);
    const { pid } = program.state.kind === "running" ? program.state : { pid: 0 };
    expect(cgroupsOf(childOf(watchProcessName))).toEqual(cgroupsOf(pid));
    expect(cgroupsOf(pid)).not.toEqual(cgroupsOf(process.pid));
    const killed = await watches.open(program, { path: ".", isRecursive: false });
    process.kill(childOf(watchProcessName), "SIGKILL");
    const broken = [watch, killed].map(async ({ reports }) => {
      for await (const report of reports) expect(report.isLossy).toBe(false);
    });
    await expect(Promise.race(broken)).rejects.toThrow("the watch failed");
    const [left] = await Promise.allSettled([watches.open(program, { path: ".", isRecursive: true })]);
    const waiting = helpers.run(program, { kind: "stat", path: "one" });
    expect((await waiting).info).toMatchObject({ type: "file", mode: 0o600 });
    await program.stop({ graceMs: 0 });
    await expect(helpers.run(program, { kind: "stat", path: "one" })).rejects.toThrow();
    expect(left.status).toBe("fulfilled");
    expect((await Promise.allSettled(broken)).map(({ status }) => status).toSorted()).toEqual(["fulfilled", "rejected"]);
    helpers.close();
    await manager.shutDown();
    await program.remove();
    await driver.close();
    await containerd?.stop();
    rmSync(dir, { recursive: true, force: true });
  });
});
