import { spawn } from "node:child_process";
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmdirSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { systemClock } from "@keelson/api-machinery/time";
import { createSupervisorProcesses, supervisorCommand } from "../testing/supervisor-processes.ts";
import { content } from "../contract/setup.ts";
import type { Driver, ProgramSpec } from "../driver.ts";
import { createCgroup, entryFilesOf } from "../cgroup/cgroup.ts";
import { discoverCgroups, parseHierarchies } from "../cgroup/cgroup-hierarchies.ts";
import { isAlive, listProcesses, readStat } from "./proc.ts";
import { programFolder } from "../program/files/program-folder.ts";
import { createProcessDriver } from "./process-driver.ts";

const supervisors = createSupervisorProcesses("createProcessDriver");

let base: string;
let dir: string;
let driver: Driver | undefined;

beforeEach(() => {
  base = realpathSync(mkdtempSync(join(tmpdir(), "keelson-adopt-")));
  dir = join(base, "programs");
});

afterEach(async () => {
  await supervisors.kill();
  await Promise.all(driver?.list().map((program) => program.stop({ graceMs: 0 })) ?? []);
  await driver?.close();
  driver = undefined;
  rmSync(base, { recursive: true, force: true });
});

const open = async (): Promise<Driver> => {
  driver = await createProcessDriver({ dir, clock: systemClock, random: Math.random });
  return driver;
};

const waitingFor = (gate: string, code: number): ProgramSpec["command"] => [
  "/bin/sh",
  "-c",
  `echo $$ >pid; while ! [ -e ${gate} ]; do sleep 0.02; done; exit ${code}`,
];

const superviseElsewhere = (specs: readonly ProgramSpec[]) => supervisors.supervise({ dir }, specs);

async function ended(pid: number, startTime: number): Promise<void> {
  while (isAlive(pid, startTime)) await new Promise((resolve) => setTimeout(resolve, 10));
}

test("knows every exit code after kill -9 of the supervisor", async () => {
  await superviseElsewhere([
    { id: "runs", command: waitingFor(join(base, "gate-1"), 7) },
    { id: "ends", command: waitingFor(join(base, "gate-2"), 9) },
  ]);
  const pid = Number(await content(join(dir, "ends", "work", "pid")));
  const startTime = readStat(pid)?.startTime ?? -1;
  await supervisors.kill();
  writeFileSync(join(base, "gate-2"), "");
  await ended(pid, startTime);

  const next = await open();
  expect(next.get("runs")?.state).toMatchObject({ kind: "running" });
  expect(await next.get("ends")?.exited()).toMatchObject({ reason: "Error", exitCode: 9 });
  writeFileSync(join(base, "gate-1"), "");
  expect(await next.get("runs")?.exited()).toMatchObject({ reason: "Error", exitCode: 7 });
});

test("acquires the lock of a killed supervisor, but not that of a live one", async () => {
  const other = await superviseElsewhere([]);
  await expect(open()).rejects.toThrow(`in use by process ${other.pid}`);
  await supervisors.kill();
  await open();
});

test("enforces a timeout after adoption, counted from the program's start", async () => {
  await superviseElsewhere([
    { id: "a", command: ["/bin/sh", "-c", "sleep 10; echo ready >ready; exec sleep 600"], timeoutMs: 11_000 },
  ]);
  await supervisors.kill();
  await content(join(dir, "a", "work", "ready"));
  const exited = await (await open()).get("a")?.exited();
  expect(exited).toMatchObject({ reason: "Timeout", exitCode: 143 });
  // Counted from the adoption it would take at least 21 s.
  expect((exited?.finishedAt ?? 0) - (exited?.startedAt ?? 0)).toBeLessThan(20_900);
});

test("marks an adopted program whose shim is killed as Lost and kills its processes", async () => {
  const first = await open();
  await first.start({ id: "a", command: waitingFor("never", 0) });
  const pid = Number(await content(join(dir, "a", "work", "pid")));
  const program = readStat(pid);
  await first.close();
  const next = await open();
  process.kill(program?.parent ?? 0, "SIGKILL");
  expect(await next.get("a")?.exited()).toMatchObject({ reason: "Lost", exitCode: -1 });
  expect(isAlive(pid, program?.startTime ?? -1)).toBe(false);
});

test("never signals a reused pid", async () => {
  const first = await open();
  await first.start({ id: "a", command: ["true"] });
  await first.get("a")?.exited();
  await first.close();
  const bystander = spawn("sleep", ["600"], { stdio: "ignore", detached: true });
  const stat = readStat(bystander.pid ?? 0);
  const identity = {
    shimPid: bystander.pid,
    shimStartTime: (stat?.startTime ?? 0) - 1,
    bootId: readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim(),
  };
  writeFileSync(join(dir, "a", "exit"), "\n");
  writeFileSync(
    join(dir, "a", "state.json"),
    JSON.stringify({ kind: "running", identity, startedAt: 1, stop: { reason: "Stopped", graceMs: 0 } }),
  );
  const next = await open();
  expect(await next.get("a")?.exited()).toMatchObject({ reason: "Lost" });
  expect(isAlive(bystander.pid ?? 0, stat?.startTime ?? -1)).toBe(true);
  bystander.kill("SIGKILL");
});

test("after a reboot, marks a program as Lost or reports its exit file", async () => {
  const first = await open();
  for (const id of ["a", "b"]) await first.start({ id, command: ["true"] });
  await Promise.all(first.list().map((program) => program.exited()));
  await first.close();
  const identity = { shimPid: 1, shimStartTime: readStat(1)?.startTime, bootId: "another-boot" };
  for (const id of ["a", "b"])
    writeFileSync(join(dir, id, "state.json"), JSON.stringify({ kind: "running", identity, startedAt: 1 }));
  writeFileSync(join(dir, "a", "exit"), "pid 1 1\n");
  const next = await open();
  expect(await next.get("a")?.exited()).toMatchObject({ reason: "Lost", message: expect.stringContaining("restarted") });
  expect(await next.get("b")?.exited()).toMatchObject({ reason: "Completed", exitCode: 0 });
});

test("starts nothing if the supervisor dies before it recorded the identity", async () => {
  const first = await open();
  const program = await first.start({ id: "a", command: ["/bin/sh", "-c", "echo ran >>ran"] });
  await program.exited();
  await first.close();
  rmSync(join(dir, "a", "state.json"));
  rmSync(join(dir, "a", "exit"));
  const next = await open();
  expect(await next.get("a")?.exited()).toMatchObject({ reason: "Lost", message: expect.stringContaining("never ran") });
});

test("starts nothing if the supervisor dies before the release, and removes the cgroup", async () => {
  const first = await open();
  await (await first.start({ id: "a", command: ["true"] })).exited();
  await first.close();
  const bootId = readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim();
  const identity = { shimPid: 1, shimStartTime: 1, bootId };
  writeFileSync(join(dir, "a", "state.json"), JSON.stringify({ kind: "running", identity, startedAt: 1 }));
  writeFileSync(join(dir, "a", "exit"), "pid 1 1\nunreleased\nexit 0\n");
  // As if the spec had not reached the disk: the cgroups already exist.
  mkdirSync(join(dir, "half"));
  const hierarchies = discoverCgroups();
  const { tag } = programFolder(realpathSync(dir), "half");
  createCgroup(hierarchies, tag, { memoryBytes: 1 << 26 });
  const next = await open();
  expect(await next.get("a")?.exited()).toMatchObject({ reason: "Lost", message: expect.stringContaining("never ran") });
  expect(next.get("half")).toBeUndefined();
  expect(entryFilesOf(hierarchies, tag)).toEqual([]);
});

test("adopts programs of a supervisor that was killed with its whole cgroup", async () => {
  const cgroupParent = `/${basename(base)}/programs`;
  const outer = await createProcessDriver({ dir: join(base, "outer"), clock: systemClock, random: Math.random });
  const inner: ProgramSpec = { id: "a", command: waitingFor(join(base, "gate"), 7), limits: { memoryBytes: 1 << 28 } };
  const command = supervisorCommand("createProcessDriver", { dir, cgroupParent }, [inner]);
  const agent = await outer.start({ id: "agent", command, limits: { memoryBytes: 1 << 30, pids: 100 } });
  await content(join(dir, "a", "work", "pid"));
  const output = agent.logs.stdout;
  while (readFileSync(output, "utf8") !== "started") await new Promise((resolve) => setTimeout(resolve, 10));
  expect((await agent.stop({ graceMs: 0 })).reason).toBe("Stopped");
  await outer.close();
  const next = await createProcessDriver({ dir, clock: systemClock, random: Math.random, cgroupParent });
  expect(next.get("a")?.state).toMatchObject({ kind: "running" });
  writeFileSync(join(base, "gate"), "");
  expect(await next.get("a")?.exited()).toMatchObject({ reason: "Error", exitCode: 7 });
  await next.close();
  for (const { mount } of parseHierarchies({ mounts: readFileSync("/proc/self/mounts", "utf8"), membership: "" })) {
    expect(existsSync(join(mount, cgroupParent))).toBe(false);
    if (existsSync(join(mount, basename(base)))) rmdirSync(join(mount, basename(base)));
  }
});

test("keeps programs that were started outside the group, and removes the group when it is empty", async () => {
  const group = { name: `keelson-pods-${basename(base)}`, cpuShares: 2048 };
  const options = { clock: systemClock, random: Math.random };
  const limits = { memoryBytes: 1 << 28, cpuShares: 512 };
  const earlier = await createProcessDriver({ ...options, dir });
  await earlier.start({ id: "a", command: waitingFor(join(base, "gate"), 7), limits });
  await earlier.close();
  driver = await createProcessDriver({ ...options, dir, group });
  const [former, grown] = [driver.get("a"), await driver.start({ id: "b", command: ["sleep", "600"], limits })];
  const parents = discoverCgroups().map(({ parent }) => parent);
  const hasGroup = (): boolean => parents.some((parent) => existsSync(join(parent, group.name)));
  expect(hasGroup()).toBe(parents.length > 0);
  if (former?.limits.applied.memoryBytes !== undefined) {
    await former.setLimits({ memoryBytes: 1 << 29 });
    await expect(grown.setLimits({ memoryBytes: 1 << 29 })).resolves.toBeUndefined();
  }
  writeFileSync(join(base, "gate"), "");
  expect(await former?.exited()).toMatchObject({ reason: "Error", exitCode: 7 });
  await grown.stop({ graceMs: 0 });
  await Promise.all(driver.list().map((program) => program.remove()));
  await driver.close();
  expect(hasGroup()).toBe(false);
  const tags = ["a", "b"].map((id) => programFolder(realpathSync(dir), id).tag);
  expect(parents.flatMap((parent) => tags.filter((tag) => existsSync(join(parent, tag))))).toEqual([]);
});

test("leaves no zombie, descriptor, cgroup, timer or file after 200 programs", async () => {
  const own = await open();
  const names = Array.from({ length: 10 }, (_, index) => `p${index}`);
  // Other programs of the machine have cgroups too: only ours count.
  const tags = new Set(names.map((name) => programFolder(realpathSync(dir), name).tag));
  const groups = (): readonly string[] =>
    parseHierarchies({
      mounts: readFileSync("/proc/self/mounts", "utf8"),
      membership: readFileSync("/proc/self/cgroup", "utf8"),
    }).flatMap(({ mount, own: group }) => {
      const folder = join(mount, group);
      return existsSync(folder) ? readdirSync(folder).filter((entry) => tags.has(entry)) : [];
    });
  await (await own.start({ id: "warm", command: ["true"] })).exited();
  const descriptors = (): number => readdirSync("/proc/self/fd").length;
  const before = descriptors();
  for (let round = 0; round < 20; round++) {
    const programs = await Promise.all(
      names.map((id) => own.start({ id, command: ["true"], limits: { memoryBytes: 1 << 26 } })),
    );
    await Promise.all(programs.map((program) => program.exited()));
    await Promise.all(programs.map((program) => program.remove()));
  }
  const zombies = (await listProcesses()).filter((stat) => stat.parent === process.pid && stat.state === "Z");
  expect(zombies).toEqual([]);
  expect(descriptors()).toBeLessThanOrEqual(before + 2);
  expect(groups()).toEqual([]);
  expect(readdirSync(dir).filter((name) => !name.startsWith("."))).toEqual(["warm"]);
}, 180_000);

test("reports an unwritable directory with one clear error", async () => {
  writeFileSync(join(base, "file"), "");
  const below = join(base, "file", "programs");
  await expect(createProcessDriver({ dir: below, clock: systemClock, random: Math.random })).rejects.toMatchObject({
    code: "FolderUnusable",
    message: expect.stringMatching(`${below}.*not a directory`),
  });
});

test.each([
  // Not every machine lets a supervisor create cgroups. Without them, a process that clears its environment escapes.
  ["with cgroups", undefined, "env -i "],
  ["without cgroups", false, ""],
] as const)("ends what a contained command has left behind, %s", async (_, cgroupParent, cleared) => {
  const start = async (): Promise<Driver> => {
    driver = await createProcessDriver({
      ...{ dir, clock: systemClock, random: Math.random },
      ...(cgroupParent === false && { cgroupParent }),
    });
    return driver;
  };
  const work = join(dir, "a", "work");
  const contained = async (name: string) => {
    const leave = `(setsid ${cleared}/bin/sh -c 'echo $$ >${name}; while :; do sleep 600; done' &); echo started; exec sleep 600`;
    const session = await driver?.get("a")?.exec({ command: ["/bin/sh", "-c", leave], isContained: true });
    session?.stdout.resume();
    const pid = Number(await content(join(work, name)));
    return { session, pid, startTime: readStat(pid)?.startTime ?? -1 };
  };
  const program = await (await start()).start({ id: "a", command: ["sleep", "600"] });
  const first = await contained("first");
  const other = await contained("other");
  await first.session?.kill();
  await first.session?.exited();
  expect(isAlive(first.pid, first.startTime)).toBe(false);
  expect(isAlive(other.pid, other.startTime)).toBe(true);
  expect(program.state.kind).toBe("running");
  // As if the supervisor was killed: its commands go on.
  await driver?.close();
  expect(isAlive(other.pid, other.startTime)).toBe(true);
  const next = (await start()).get("a");
  await ended(other.pid, other.startTime);
  expect(next?.state.kind).toBe("running");
  expect(await next?.stop()).toMatchObject({ reason: "Stopped" });
});
