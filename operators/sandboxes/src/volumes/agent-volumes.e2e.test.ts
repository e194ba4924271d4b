import { execFileSync, spawnSync } from "node:child_process";
import {
  chmodSync,
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  statSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { systemClock } from "@keelson/api-machinery/time";
import { silentLogger } from "@keelson/controller";
import type { Program } from "@keelson/execution";
import { mountPointsBelow } from "@keelson/execution/files";
import { type LocalContainerd, startLocalContainerd } from "@keelson/execution/testing";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { type OpenedAgent, openAgent } from "../agent/run-agent.ts";
import { FileHelpers } from "../files/file-helpers.ts";
import type { AgentSandbox } from "../protocol/protocol.ts";
import { canMountVolumes } from "../testing/volume-support.ts";
import { unmountVolumes, volumeSupportProblem } from "./volume-host.ts";
import { canGrowMounted } from "./volume-image.ts";

const volumeId = "00000000-0000-4000-8000-000000000001";
const otherVolumeId = "00000000-0000-4000-8000-000000000002";
const sizeBytes = 16 << 20;
const idOf = (index: number): string => String(index).repeat(32);

let dir: string;
let containerd: LocalContainerd | undefined;
let agent: OpenedAgent;
let kind: "bubblewrap" | "containerd";

const open = (folder = "agent"): Promise<OpenedAgent> =>
  openAgent({
    ...{ name: "agent", node: "node", capacity: 8, bindAddress: "127.0.0.1", clock: systemClock, log: silentLogger },
    ...{ driver: kind, dir: join(dir, folder), volumeDir: join(dir, "volumes") },
    ...(containerd && { containerdSocket: containerd.socket }),
  });

const sandbox = (index: number, command: readonly string[], change: Partial<AgentSandbox> = {}): AgentSandbox => ({
  ...{ sandboxId: idOf(index), claimUid: "", claimName: `box-${index}`, namespace: "default", image: "host", command },
  volumes: [{ name: "data", volumeId, mountPath: "/data" }],
  ...change,
});

async function start(index: number, command: readonly string[], change?: Partial<AgentSandbox>): Promise<Program> {
  expect(await agent.manager.create(sandbox(index, command, change))).toMatchObject({ success: true });
  const program = agent.driver.get(idOf(index));
  if (program === undefined) throw new Error("the sandbox does not exist");
  return program;
}

/** What a program of a sandbox prints until it exits. */
async function run(index: number, script: string, change?: Partial<AgentSandbox>): Promise<string> {
  const program = await start(index, ["bash", "-c", script], change);
  await program.exited();
  return readFileSync(program.logs.stdout, "utf8") + readFileSync(program.logs.stderr, "utf8");
}

async function exec(program: Program, ...command: [string, ...string[]]): Promise<string> {
  const session = await program.exec({ command });
  session.stdin.end();
  return text(session.stdout);
}

const readOnly = { volumes: [{ name: "data", volumeId, mountPath: "/data", readOnly: true }] } as const;

/** Waits until the kernel has released the device of the volume, which it may do after the last sandbox has ended. */
async function untilFree(): Promise<void> {
  const image = join(dir, "volumes", volumeId, "volume.img");
  const isFree = (): boolean => execFileSync("losetup", ["--noheadings", "--associated", image]).length === 0;
  await expect.poll(isFree, { timeout: 60_000 }).toBe(true);
}

const create = (id = volumeId): Promise<void> => agent.manager.changeVolume({ kind: "create", volumeId: id, sizeBytes });
const remove = (id = volumeId): Promise<void> => agent.manager.changeVolume({ kind: "delete", volumeId: id });

it("requires a driver with isolation", () => {
  expect(volumeSupportProblem("process")).toBe("volumes require the bubblewrap or containerd driver");
});

// A machine without loop devices cannot run these.
const drivers = canMountVolumes() ? (["bubblewrap", "containerd"] as const) : [];

describe.each(drivers)("a volume of an agent (%s)", (name) => {
  beforeEach(async () => {
    kind = name;
    dir = realpathSync(mkdtempSync(join(tmpdir(), "volumes-")));
    chmodSync(dir, 0o711);
    containerd = name === "containerd" ? await startLocalContainerd(join(dir, "containerd")) : undefined;
    agent = await open();
    await create();
  });

  afterEach(async () => {
    await agent.manager.shutDown();
    await Promise.all(agent.driver.list().map((program) => program.remove()));
    await agent.close();
    for (const folder of ["agent", "second"]) await unmountVolumes(join(dir, folder));
    expect(mountPointsBelow(join(dir, "agent", "volumes"))).toEqual([]);
    await containerd?.stop();
    rmSync(dir, { recursive: true, force: true });
  });

  it("outlives sandboxes, and belongs to each user that has it in turn", async () => {
    const first =
      "umask 077; echo one >/data/a; mkdir -p /data/d/e; echo deep >/data/d/e/f; ln -s /etc/shadow /data/link; pwd; ls /data";
    expect(await run(1, first)).toBe("/work\na\nd\nlink\n");
    // Another sandbox, with another user id, reads and changes what only its owner may.
    expect(await run(2, "cat /data/a /data/d/e/f; echo two >>/data/a; rm /data/link; id -u; stat -c %u /data/a")).toBe(
      "one\ndeep\n0\n0\n",
    );
    expect(await run(3, "cat /data/a")).toBe("one\ntwo\n");
    await agent.manager.delete(idOf(1));
    expect(agent.manager.status().volumes).toEqual([volumeId]);
  });

  it("is used by one sandbox that writes, or by several that do not", async () => {
    const writer = await start(1, ["bash", "-c", "echo text >/data/file; sleep 600"]);
    for (const change of [{}, readOnly]) {
      const answer = await agent.manager.create(sandbox(2, ["true"], change));
      expect(answer).toMatchObject({ success: false, rejected: true, message: `volume data is in use by sandbox ${idOf(1)}` });
    }
    while ((await exec(writer, "cat", "/data/file")) !== "text\n") await new Promise((resolve) => setTimeout(resolve, 10));
    await expect(remove()).rejects.toMatchObject({ code: "InUse" });
    await agent.manager.delete(idOf(1));
    const readers = [await start(3, ["sleep", "600"], readOnly), await start(4, ["sleep", "600"], readOnly)];
    for (const reader of readers) {
      expect(await exec(reader, "cat", "/data/file")).toBe("text\n");
      expect(await exec(reader, "sh", "-c", "echo no >/data/file || echo denied")).toBe("denied\n");
    }
    expect(await agent.manager.create(sandbox(5, ["true"]))).toMatchObject({ success: false, rejected: true });
  });

  it("has a size that no sandbox exceeds, and does not count as memory", async () => {
    const script = "head -c 64M /dev/zero >/data/big; echo $?; rm /data/big; head -c 8M /dev/zero >/data/part; echo $?";
    expect(await run(1, script)).toMatch(/^1\n0\n.*No space left on device\n$/);
    expect(statSync(join(dir, "volumes", volumeId, "volume.img")).size).toBe(sizeBytes);
    // Allocated in advance, and still so after files were removed.
    expect(statSync(join(dir, "volumes", volumeId, "volume.img")).blocks * 512).toBeGreaterThanOrEqual(sizeBytes);
  });

  it("grows while a sandbox uses it and while none does, keeps its files, and neither shrinks nor takes the rest of the disk", async () => {
    const grow = (bytes: number): Promise<void> => agent.manager.changeVolume({ kind: "resize", volumeId, sizeBytes: bytes });
    const program = await start(1, ["bash", "-c", "echo kept >/data/file; sleep 600"]);
    const sizeIn = async (each: Program): Promise<number> => Number(await exec(each, "stat", "-f", "-c", "%b", "/data"));
    const before = await sizeIn(program);
    if (canGrowMounted()) {
      await Promise.all([grow(3 * sizeBytes), grow(2 * sizeBytes)]);
      expect(await sizeIn(program)).toBeGreaterThan(2.5 * before);
      expect(await exec(program, "sh", "-c", "head -c 24M /dev/zero >/data/big && cat /data/file")).toBe("kept\n");
    } else {
      await expect(grow(3 * sizeBytes)).rejects.toMatchObject({ code: "InUse" });
      expect(await sizeIn(program)).toBe(before);
    }
    await agent.manager.delete(idOf(1));
    await untilFree();
    await grow(4 * sizeBytes);
    await grow(sizeBytes);
    expect(agent.manager.status().volumeSizes).toEqual({ [volumeId]: 4 * sizeBytes });
    await expect(grow(2 ** 50)).rejects.toMatchObject({
      code: "Failed",
      message: expect.stringContaining("available") as string,
    });
    const { size, blocks } = statSync(join(dir, "volumes", volumeId, "volume.img"));
    expect(size).toBe(4 * sizeBytes);
    expect(blocks * 512).toBeGreaterThanOrEqual(size);
    expect(await run(2, "cat /data/file; rm -f /data/big; head -c 40M /dev/zero >/data/more && echo fits")).toBe(
      "kept\nfits\n",
    );
  });

  it("keeps its files when its growth is interrupted, and then grows", async () => {
    await run(1, "head -c 1M /dev/urandom >/data/file; sha256sum /data/file >/data/sum");
    await agent.manager.delete(idOf(1));
    const folder = join(dir, "volumes", volumeId);
    const image = join(folder, "volume.img");
    await untilFree();
    const grow = (): Promise<void> => agent.manager.changeVolume({ kind: "resize", volumeId, sizeBytes: 16 * sizeBytes });
    const limitFiles = (size: number | "unlimited"): unknown =>
      execFileSync("prlimit", ["--pid", String(process.pid), `--fsize=${size}:`]);
    execFileSync("fallocate", ["--length", String(16 * sizeBytes), image]);
    // Ends resize2fs in the middle of its changes.
    limitFiles(4 * sizeBytes);
    try {
      await expect(grow()).rejects.toMatchObject({ code: "Failed" });
    } finally {
      limitFiles("unlimited");
    }
    expect(spawnSync("e2fsck", ["-n", "-f", image]).status).toBe(4);
    expect(agent.manager.status().volumeSizes).toEqual({ [volumeId]: sizeBytes });
    const check = "cd / && sha256sum --check /data/sum";
    expect(await run(2, `${check}; grep -o noinit_itable /proc/mounts`)).toBe("/data/file: OK\nnoinit_itable\n");
    await agent.manager.delete(idOf(2));
    await untilFree();
    await grow();
    expect(agent.manager.status().volumeSizes).toEqual({ [volumeId]: 16 * sizeBytes });
    expect(await run(3, `${check} && head -c 128M /dev/zero >/data/more && echo fits`)).toBe("/data/file: OK\nfits\n");
  });

  it("is deleted with its files, and can be deleted and created again", async () => {
    await run(1, "echo one >/data/a");
    await remove();
    await remove();
    expect(readdirSync(join(dir, "volumes"))).toEqual([]);
    expect(await agent.manager.create(sandbox(2, ["true"]))).toMatchObject({
      rejected: true,
      message: "volume data not found on this agent",
    });
    await create();
    await create();
    expect(await run(3, "ls /data")).toBe("");
  });

  it("does not stay allocated until sandboxes end that were started while it was mounted", async () => {
    const image = join(dir, "volumes", volumeId, "volume.img");
    const devices = (): string => execFileSync("losetup", ["--noheadings", "--associated", image], { encoding: "utf8" });
    await start(1, ["sleep", "600"]);
    const other = await start(2, ["sleep", "600"], { volumes: [] });
    // Its processes have their own mounts, with a copy of this one.
    await exec(other, "true");
    expect(devices()).not.toBe("");
    await agent.manager.delete(idOf(1));
    await expect.poll(devices, { timeout: 60_000 }).toBe("");
    await remove();
    expect(other.state.kind).toBe("running");
  });

  it("is adopted with the sandboxes that use it after a crash of the agent", async () => {
    await create(otherVolumeId);
    const first = await start(1, ["sh", "-c", "echo kept >/data/file; exec sleep 600"]);
    while ((await exec(first, "ls", "/data")) !== "file\n") await new Promise((resolve) => setTimeout(resolve, 10));
    // Nothing is stopped or unmounted.
    await agent.close();
    agent = await open();
    const program = agent.driver.get(idOf(1));
    if (program === undefined) throw new Error("the sandbox was not adopted");
    expect(await exec(program, "cat", "/data/file")).toBe("kept\n");
    expect(await agent.manager.create(sandbox(2, ["true"]))).toMatchObject({ rejected: true });
    await expect(remove()).rejects.toMatchObject({ code: "InUse" });
    await agent.manager.delete(idOf(1));
    expect(await run(3, "cat /data/file")).toBe("kept\n");
  });

  it("is not used by another agent as long as programs of the first may have it", async () => {
    await run(1, "echo one >/data/a");
    const first = agent;
    agent = await open("second");
    expect(await agent.manager.create(sandbox(2, ["true"]))).toMatchObject({
      success: false,
      rejected: true,
      message: expect.stringContaining("programs of an earlier agent may still be using it"),
    });
    await expect(remove()).rejects.toMatchObject({ code: "InUse" });
    await Promise.all(first.driver.list().map((program) => program.remove()));
    await first.close();
    // As the janitor does.
    await unmountVolumes(join(dir, "agent"));
    rmSync(join(dir, "agent"), { recursive: true });
    expect(await run(3, "cat /data/a")).toBe("one\n");
  });

  it("is repaired before it is mounted if a crash damaged it, and rejected with a remedy if that is not possible", async () => {
    const image = join(dir, "volumes", volumeId, "volume.img");
    expect(await run(1, "echo one >/data/a")).toBe("");
    await agent.manager.delete(idOf(1));
    await untilFree();
    // As the kernel does when it finds an error.
    execFileSync("debugfs", ["-w", "-R", "ssv state 2", image], { stdio: "ignore" });
    expect(await run(2, "cat /data/a; echo two >/data/b; cat /data/b")).toBe("one\ntwo\n");
    await agent.manager.delete(idOf(2));
    await untilFree();
    // Read only now: the kernel changes the superblock while it is mounted.
    expect(execFileSync("dumpe2fs", ["-h", image], { encoding: "utf8", stdio: "pipe" })).not.toMatch(/with errors/);
    execFileSync("dd", ["if=/dev/zero", `of=${image}`, "bs=1M", "count=16", "conv=notrunc"], { stdio: "ignore" });
    expect(await agent.manager.create(sandbox(3, ["true"]))).toMatchObject({
      success: false,
      message: `the file system of the volume is damaged; repair it with: e2fsck -f ${image}`,
    });
    await remove();
    expect(agent.manager.status().volumes).toEqual([]);
  });

  it("does not prevent the agent from starting if its record is damaged", async () => {
    const program = await start(1, ["sleep", "600"]);
    await agent.close();
    const record = join(dir, "volumes", volumeId, "volume.json");
    execFileSync("truncate", ["--size", "0", record]);
    agent = await open();
    expect(agent.driver.get(program.id)?.state.kind).toBe("running");
    await agent.manager.delete(program.id);
    expect(await agent.manager.create(sandbox(2, ["true"]))).toMatchObject({
      success: false,
      message: `the record of the volume is damaged: ${record}`,
    });
    await remove();
  });

  it("does not take the rest of the disk", async () => {
    const change = { kind: "create", volumeId: otherVolumeId, sizeBytes: 2 ** 50 } as const;
    await expect(agent.manager.changeVolume(change)).rejects.toMatchObject({
      code: "Failed",
      message: expect.stringMatching(/^could not allocate the volume: 1073741824 MiB requested, \d+ MiB available$/),
    });
    expect(agent.manager.status().volumes).toEqual([volumeId]);
  });

  it("completes an interrupted creation and an interrupted change of owner", async () => {
    const folder = join(dir, "volumes", otherVolumeId);
    mkdirSync(folder);
    execFileSync("truncate", ["--size", "1M", join(folder, "volume.img.new")]);
    expect(agent.manager.status().volumes).toEqual([volumeId]);
    await create(otherVolumeId);
    expect(await run(1, "umask 077; echo one >/data/a; echo two >/data/b")).toBe("");
    const path = join(dir, "volumes", volumeId, "volume.json");
    const record = JSON.parse(readFileSync(path, "utf8")) as { owners: { first: number; size: number }[] };
    const [owner] = record.owners;
    const next = { first: (owner?.first ?? 0) + 7 * 65_536, size: owner?.size ?? 1 };
    execFileSync("sh", ["-c", 'printf %s "$2" >"$1"', "write", path, JSON.stringify({ ...record, owners: [owner, next] })]);
    expect(await run(2, "cat /data/a /data/b")).toBe("one\ntwo\n");
  });

  it("does not lead a sandbox, the file service or the next owner out of it with links", async () => {
    const victim = join(dir, "victim");
    mkdirSync(victim, { mode: 0o700 });
    await run(
      1,
      `ln -s ${victim} /data/folder; ln -s /etc/shadow /data/file; ln -s ../../../../.. /data/up; cp /bin/true /data/suid; chmod 4755 /data/suid; mknod /data/device b 7 0 2>/dev/null; true`,
    );
    const program = await start(2, ["sleep", "600"]);
    expect([lstatSync(victim).uid, statSync("/etc/shadow").uid]).toEqual([0, 0]);
    expect(
      await exec(program, "sh", "-c", `ls ${victim} 2>&1; head -c 1 /data/file; stat -c %a /data/suid; ls /data/device 2>&1`),
    ).not.toMatch(/root:/);
    const helpers = new FileHelpers(systemClock);
    try {
      for (const path of ["/data/file", "/data/up/etc/shadow", "/data/folder/x"])
        await expect(helpers.run(program, { kind: "read", path, offset: 0 })).rejects.toThrow();
      expect((await helpers.run(program, { kind: "list", path: "/data" })).entries?.map((entry) => entry.name)).toContain(
        "suid",
      );
    } finally {
      helpers.close();
    }
    expect(existsSync(join(victim, "x"))).toBe(false);
  });

  it("is given to the next sandbox also if its directories are nested beyond PATH_MAX and it is not accessible", async () => {
    const nest =
      'chdir "/data"; $d = "d" x 200; for (1..900) { (mkdir($d) and chdir($d)) or die $! } chmod 0, "/data"; print "ok\n"';
    expect(await run(1, `perl -e '${nest}'`)).toBe("ok\n");
    expect(await run(2, "chmod 755 /data; cd /data/d*/d* && stat -c '%u %F' .")).toBe("0 directory\n");
  });
});
