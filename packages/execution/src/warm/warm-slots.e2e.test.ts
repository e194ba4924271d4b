import { spawn } from "node:child_process";
import { once } from "node:events";
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { systemClock } from "@keelson/api-machinery/time";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { createBubblewrapDriver, findBubblewrap } from "../bubblewrap/bubblewrap-driver.ts";
import { discoverCgroups, listHierarchies } from "../cgroup/cgroup-hierarchies.ts";
import type { Driver, Program, ProgramSpec, StartKind } from "../driver.ts";
import { isAlive, listProcesses, readBootId } from "../process/proc.ts";
import { warmUp, whenWarm } from "../testing/warm-slots.ts";
import { hasStub } from "../stub/executable.ts";
import { unclaimedStub } from "../stub/start-stub.ts";

const isRoot = process.getuid?.() === 0;
const limits = { pids: 64, cpuMillis: 1000, memoryBytes: 1 << 28, diskBytes: 1 << 24 } as const;
const isolation = { network: "none", hasPrivateUser: true, hostname: "sandbox" } as const;
let base: string;
let dir: string;
let cgroupParent: string;
let driver: Driver;

const open = (): Promise<Driver> => createBubblewrapDriver({ dir, clock: systemClock, random: Math.random, cgroupParent });

beforeEach(async () => {
  base = realpathSync(mkdtempSync(join(tmpdir(), "keelson-warm-")));
  chmodSync(base, 0o711);
  dir = join(base, "programs");
  cgroupParent = `/keelson-warm-test-${process.pid}`;
  driver = await open();
});

afterEach(async () => {
  await Promise.all(driver.list().map((program) => program.stop({ graceMs: 0 })));
  await Promise.all(driver.list().map((program) => program.remove()));
  await driver.close();
  rmSync(base, { recursive: true, force: true });
});

const specOf = (change: Partial<ProgramSpec> = {}): ProgramSpec => ({
  ...{ id: "a", command: ["/bin/true"], isolation, limits },
  ...change,
});

async function start(kind: StartKind, change: Partial<ProgramSpec> = {}): Promise<Program> {
  const spec = specOf(change);
  if (kind !== "cold") await warmUp(driver, kind, { ...spec, limits });
  const program = await driver.start(spec);
  expect(program.startKind).toBe(kind);
  return program;
}

/** What a program prints, and how it ends. */
async function run(kind: StartKind, change: Partial<ProgramSpec>): Promise<readonly [output: string, exitCode: number]> {
  const program = await start(kind, { id: kind, ...change });
  const { exitCode } = await program.exited();
  return [readFileSync(program.logs.stdout, "utf8") + readFileSync(program.logs.stderr, "utf8"), exitCode];
}

const mounts = (): readonly string[] =>
  readFileSync("/proc/self/mountinfo", "utf8")
    .split("\n")
    .filter((line) => line.includes(base));

/** The cgroups of programs and slots. */
const groups = (): readonly string[] =>
  discoverCgroups(cgroupParent).flatMap(({ parent }) =>
    readdirSync(parent).filter((name) => /^keelson-[0-9a-f]{16}$/.test(name)),
  );

/** Processes whose command line or directory is below the test's directory. */
async function processes(): Promise<readonly string[]> {
  const hierarchies = listHierarchies(cgroupParent);
  const pids = hierarchies.flatMap(({ parent }) =>
    (existsSync(parent) ? readdirSync(parent) : []).flatMap((name) => {
      const file = join(parent, name, "cgroup.procs");
      return existsSync(file) ? readFileSync(file, "latin1").split("\n").filter(Boolean) : [];
    }),
  );
  const alive = new Set((await listProcesses()).filter(({ state }) => state !== "Z").map(({ pid }) => String(pid)));
  return [...new Set(pids)].filter((pid) => alive.has(pid));
}

const warmKinds = hasStub() ? (["shell", "image"] as const) : (["shell"] as const);

describe.runIf(isRoot).each(warmKinds)("a program in a slot of kind %s", (kind) => {
  test("sees what it would see if it had started cold", async () => {
    const show = [
      "env | grep -v ^KEELSON_PROGRAM= | sort",
      "pwd; id; hostname; umask; ls /proc/self/fd; cat /proc/net/dev | wc -l; ls -A / /work /tmp /etc /dev",
      "grep -E '^(Cap|NoNew|Seccomp|Groups|Uid|Gid|NSpid)' /proc/self/status",
      "cut -d' ' -f5,6 /proc/self/mountinfo | grep -v ^/run/keelson-start; cat /proc/self/limits; printf '%s|' \"$0\" \"$@\"",
    ].join("; ");
    const change = {
      command: ["/bin/sh", "-c", show, "zero", "", 'it\'s a "word"\n', "\u00e9\u4e16"],
      env: { "with.dot": "x", QUOTED: "it's\n$HOME", PATH: "/usr/bin:/bin" },
      cwd: "/tmp",
    } as const;
    const cold = await run("cold", change);
    expect(cold[1]).toBe(0);
    expect(await run(kind, change)).toEqual(cold);
  });

  test("has its own limits, and reports its exit code", async () => {
    const program = await start(kind, {
      command: ["/bin/sh", "-c", "exit 7"],
      limits: { ...limits, pids: 5, memoryBytes: 1 << 27 },
    });
    expect(program.limits.applied).toEqual({ ...limits, pids: 5, memoryBytes: 1 << 27 });
    expect(await program.exited()).toMatchObject({ reason: "Error", exitCode: 7 });
  });

  test("can have more memory than its slot was prepared with", async () => {
    const more = { ...limits, memoryBytes: 1 << 29 };
    const program = await start(kind, { command: ["/bin/sleep", "600"], limits: more });
    expect(program.limits).toEqual({ applied: more });
  });

  test("leaves nothing of its slot behind if the claim cannot be written", async () => {
    await warmUp(driver, kind, specOf());
    const [slot = ""] = readdirSync(join(dir, ".warm"));
    const claim = join(dir, ".warm", slot, "claim");
    rmSync(claim);
    mkdirSync(claim);
    const program = await driver.start(specOf());
    expect(await program.exited()).toMatchObject({ reason: "StartFailed", message: expect.stringContaining("EISDIR") });
    await program.remove();
    await driver.close();
    expect([await processes(), mounts(), groups()]).toEqual([[], [], []]);
    driver = await open();
  });

  test("leaves nothing of its slot behind if its directory exists", async () => {
    await warmUp(driver, kind, specOf());
    mkdirSync(join(dir, "a"));
    await expect(driver.start(specOf())).rejects.toMatchObject({ code: "AlreadyExists" });
    await driver.close();
    expect([readdirSync(join(dir, ".warm")), mounts(), groups()]).toEqual([[], [], []]);
    rmSync(join(dir, "a"), { recursive: true });
    driver = await open();
  });

  test("fails to start with the same reason as a program that starts cold", async () => {
    const root = join(base, "image");
    mkdirSync(join(root, "bin"), { recursive: true });
    writeFileSync(join(root, "bin", "secret"), "#!/bin/secret\n", { mode: 0o700 });
    const change = { command: ["/bin/secret"], isolation: { ...isolation, root } } as const;
    const program = await start(kind, change);
    expect(await program.exited()).toMatchObject({ reason: "StartFailed", exitCode: 126 });
    // Found before a slot is claimed.
    expect(await run("cold", { id: "missing", command: ["/missing"] })).toEqual(["", 127]);
  });

  test("keeps its environment out of the slot's processes and of files that others can read", async () => {
    const program = await start(kind, { command: ["/bin/sleep", "600"], env: { SECRET: "s3cr3t" } });
    const shims = discoverCgroups(cgroupParent).flatMap(({ parent }) =>
      readFileSync(join(parent, "keelson-shims", "cgroup.procs"), "latin1")
        .split("\n")
        .filter(Boolean),
    );
    expect(shims.length).toBeGreaterThan(0);
    for (const pid of shims) {
      for (const file of ["environ", "cmdline"]) expect(readFileSync(`/proc/${pid}/${file}`, "latin1")).not.toContain("s3cr3t");
    }
    const folder = join(dir, program.id);
    const files = readdirSync(folder)
      .map((name) => join(folder, name))
      .filter((path) => statSync(path).isFile());
    const holding = files.filter((path) => readFileSync(path, "latin1").includes("s3cr3t"));
    expect(holding.length).toBeGreaterThan(0);
    for (const path of holding) expect(statSync(path).mode & 0o077, path).toBe(0);
  });

  test("uses its slot alone: the next program starts cold until the slot is replaced", async () => {
    await warmUp(driver, kind, specOf());
    const programs = await Promise.all(["a", "next"].map((id) => driver.start(specOf({ id }))));
    expect(programs.map(({ startKind }) => startKind)).toEqual([kind, "cold"]);
    await whenWarm(driver);
    expect((await driver.start(specOf({ id: "third" }))).startKind).toBe(kind);
    expect(driver.warm?.status()).toMatchObject({ starts: { cold: 1, [kind]: 2 } });
  });

  test("is adopted by the next driver, with its files, commands and end", async () => {
    const program = await start(kind, {
      command: ["/bin/sh", "-c", "echo ready >ready; while ! [ -e gate ]; do sleep 0.05; done; exit 3"],
    });
    const work = join(dir, program.id, "work");
    while (!existsSync(join(work, "ready"))) await new Promise((resolve) => setTimeout(resolve, 10));
    await driver.close();
    driver = await open();
    const adopted = driver.get("a");
    const session = await adopted?.exec({ command: ["/bin/sh", "-c", "test -e ready"] });
    expect(await session?.exited()).toEqual({ exitCode: 0 });
    // A command that lets the program exit would be killed with it.
    writeFileSync(join(work, "gate"), "");
    expect(await adopted?.exited()).toMatchObject({ exitCode: 3 });
    expect(groups()).toEqual([]);
  });

  test("leaves nothing behind after 100 programs: no process, descriptor, mount, cgroup or file", async () => {
    const descriptors = (): number => readdirSync("/proc/self/fd").length;
    const files = (): readonly string[] =>
      readdirSync(dir, { recursive: true })
        .map(String)
        .filter((name) => !name.startsWith(".spare"));
    /** Without slots: those that are being removed are gone with their processes. */
    const left = async (): Promise<readonly unknown[]> => {
      driver.warm?.keep({ template: { isolation, limits }, shells: 0, perImage: 0, images: [], roots: [] });
      while ([".warm", ".trash"].some((name) => readdirSync(join(dir, name)).length > 0) || (await processes()).length > 0)
        await new Promise((resolve) => setTimeout(resolve, 10));
      return [mounts(), groups(), files()];
    };
    const cycle = async (id: string): Promise<void> => {
      const program = await driver.start(specOf({ id }));
      if (id.endsWith("0")) await program.exited();
      await program.stop({ discard: true });
      await program.remove();
    };
    await warmUp(driver, kind, specOf());
    await cycle("first");
    const before = { left: await left(), descriptors: descriptors() };
    await warmUp(driver, kind, specOf());
    for (let index = 0; index < 100; index++) await cycle(`p${index}`);
    expect(driver.warm?.status().starts[kind]).toBeGreaterThan(1);
    expect(await left()).toEqual(before.left);
    expect(descriptors()).toBeLessThanOrEqual(before.descriptors + 2);
  }, 180_000);
});

describe.runIf(isRoot)("warm slots", () => {
  test("end with a supervisor that is killed, and the next one removes what is left of them", async () => {
    await driver.close();
    const script = `
      import { createBubblewrapDriver } from ${JSON.stringify(new URL("../../dist/index.js", import.meta.url).href)};
      const clock = { now: Date.now, monotonic: () => performance.now(), setTimer: (ms, f) => { const t = setTimeout(f, ms); return { cancel: () => clearTimeout(t) }; } };
      const [options, plan] = process.argv.slice(1).map((each) => JSON.parse(each));
      const driver = await createBubblewrapDriver({ ...options, clock, random: Math.random });
      driver.warm.onChange(() => { const { shells, images } = driver.warm.status(); if (shells.ready + images.ready === 2) process.stdout.write("ready"); });
      driver.warm.keep(plan);
      setInterval(() => {}, 1 << 30);
    `;
    const root = join(base, "image");
    mkdirSync(root);
    const counts = hasStub() ? { shells: 1, perImage: 1 } : { shells: 2, perImage: 0 };
    const plan = { template: { isolation, limits }, ...counts, images: [root], roots: [] };
    const words = ["--input-type=module", "-e", script, JSON.stringify({ dir, cgroupParent }), JSON.stringify(plan)];
    const supervisor = spawn(process.execPath, words, { stdio: ["ignore", "pipe", "inherit"] });
    if (supervisor.stdout !== null) await once(supervisor.stdout, "data");
    expect(mounts().length).toBeGreaterThan(0);
    expect((await processes()).length).toBeGreaterThan(0);
    const exited = once(supervisor, "exit");
    supervisor.kill("SIGKILL");
    await exited;
    while ((await processes()).length > 0) await new Promise((resolve) => setTimeout(resolve, 10));
    driver = await open();
    expect(readdirSync(join(dir, ".warm"))).toEqual([]);
    expect([mounts(), groups()]).toEqual([[], []]);
    expect(driver.list()).toEqual([]);
  });

  test("that were claimed but never released are removed, or end without having run a program", async () => {
    await driver.close();
    const tag = `keelson-${"1".repeat(16)}`;
    // Killed after the slot's directory was moved.
    mkdirSync(join(dir, "moved"));
    writeFileSync(join(dir, "moved", "tag"), tag);
    for (const { parent } of discoverCgroups(cgroupParent)) mkdirSync(join(parent, tag), { recursive: true });
    // Killed after the state was written.
    for (const [id, name, content] of [
      ["shell", "bwrap-status.json", "unreleased\n"],
      ["image", "claim", unclaimedStub()],
      ["interrupted", "claim", Buffer.concat([unclaimedStub(), Buffer.from("part of a claim")])],
      ["empty", "claim", ""],
    ] as const) {
      mkdirSync(join(dir, id));
      writeFileSync(join(dir, id, "spec.json"), JSON.stringify(specOf({ id })));
      const identity = { shimPid: 1, shimStartTime: 1, bootId: readBootId() };
      writeFileSync(join(dir, id, "state.json"), JSON.stringify({ kind: "running", identity, startedAt: 1 }));
      writeFileSync(join(dir, id, "exit"), "pid 1 1\nexit 0\n");
      writeFileSync(join(dir, id, name), content);
    }
    driver = await open();
    expect(driver.get("moved")).toBeUndefined();
    expect(groups()).toEqual([]);
    for (const id of ["shell", "image", "interrupted", "empty"])
      expect(await driver.get(id)?.exited()).toMatchObject({ reason: "Lost", message: expect.stringContaining("never ran") });
  });

  test("are replaced if something ends them", async () => {
    await warmUp(driver, "shell", specOf());
    const [pid = "0"] = discoverCgroups(cgroupParent).flatMap(({ parent }) =>
      readFileSync(join(parent, "keelson-shims", "cgroup.procs"), "latin1")
        .split("\n")
        .filter(Boolean),
    );
    const [stat] = (await listProcesses()).filter((each) => each.pid === Number(pid));
    if (stat === undefined) throw new Error("no shim");
    const lost = new Promise<void>((resolve) => {
      const stop = driver.warm?.onChange(() => {
        stop?.();
        resolve();
      });
    });
    process.kill(stat.pid, "SIGKILL");
    await lost;
    await whenWarm(driver);
    expect(isAlive(stat.pid, stat.startTime)).toBe(false);
    expect((await start("shell")).startKind).toBe("shell");
  });

  test.runIf(hasStub())("count as ready once bubblewrap has set up their mounts", async () => {
    const [bwrap, gate, waiting] = [join(base, "bwrap"), join(base, "gate"), join(base, "waiting")];
    writeFileSync(
      bwrap,
      `#!/bin/sh\nwhile ! [ -e "${gate}" ]; do echo >>"${waiting}"; sleep 0.05; done\nexec ${findBubblewrap()} "$@"\n`,
    );
    chmodSync(bwrap, 0o755);
    chmodSync(base, 0o777);
    await driver.close();
    driver = await createBubblewrapDriver({ dir, clock: systemClock, random: Math.random, cgroupParent, bwrap });
    const warming = warmUp(driver, "image", specOf());
    // Its report came before the script began.
    await expect.poll(() => existsSync(waiting) && statSync(waiting).size, { timeout: 30_000 }).toBeGreaterThan(10);
    expect(driver.warm?.status().images).toEqual({ desired: 1, ready: 0 });
    writeFileSync(gate, "");
    await warming;
    expect(await run("image", {})).toEqual(["", 0]);
  });

  test("report why they cannot be prepared, and are ready once they can", async () => {
    const root = join(base, "missing");
    const warm = driver.warm;
    if (warm === undefined) throw new Error("no warm slots");
    const failed = new Promise<void>((resolve) => {
      const stop = warm.onChange(() => {
        if (warm.status().problem === undefined) return;
        stop();
        resolve();
      });
    });
    const plan = { template: { isolation, limits }, shells: 1, perImage: 0, images: [], roots: [root] };
    warm.keep(plan);
    await failed;
    expect(warm.status()).toMatchObject({ shells: { desired: 1, ready: 0 }, problem: expect.stringContaining(root) });
    mkdirSync(root);
    await whenWarm(driver);
    expect(warm.status().problem).toBeUndefined();
    warm.keep({ ...plan, shells: 0 });
    expect(warm.status().shells).toEqual({ desired: 0, ready: 0 });
    await driver.close();
    expect([readdirSync(join(dir, ".warm")), mounts(), groups()]).toEqual([[], [], []]);
    driver = await open();
  });
});
