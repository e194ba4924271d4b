import {
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { systemClock } from "@keelson/api-machinery/time";
import { createSupervisorProcesses } from "../testing/supervisor-processes.ts";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import { content } from "../contract/setup.ts";
import type { Driver, ProgramSpec } from "../driver.ts";
import { openImage } from "../images/image-layout.ts";
import { listProcesses } from "../process/proc.ts";
import { programFolder } from "../program/files/program-folder.ts";
import { createBusyboxImage } from "../testing/busybox-image.ts";
import { startLocalContainerd } from "../testing/local-containerd.ts";
import type { LocalContainerd } from "../testing/local-containerd.ts";
import { createContainerdApi } from "./containerd-api.ts";
import { createContainerdDriver } from "./containerd-driver.ts";
import { openContainerdImages } from "./image-import.ts";

const supervisors = createSupervisorProcesses("createContainerdDriver");

const image = "example.org/busybox:1";
/** Own cgroups: other tests run containers at the same time. */
const namespace = "keelson-crash";
let home: string;
let base: string;
let dir: string;
let containerd: LocalContainerd;
let driver: Driver | undefined;

beforeAll(async () => {
  home = realpathSync(mkdtempSync(join(tmpdir(), "ctrd-")));
  containerd = await startLocalContainerd(join(home, "c"));
  await createBusyboxImage(join(home, "busybox.tar"));
  const images = await openContainerdImages({ socket: containerd.socket, namespace, random: Math.random, now: Date.now });
  const archive = await openImage(join(home, "busybox.tar"), { temporary: home });
  await images.add(image, archive);
  await archive.close();
});

afterAll(async () => {
  await containerd.stop();
  rmSync(home, { recursive: true, force: true });
});

beforeEach(() => {
  base = mkdtempSync(join(home, "test-"));
  dir = join(base, "programs");
});

afterEach(async () => {
  await supervisors.kill();
  await Promise.all(driver?.list().map((program) => program.stop({ graceMs: 0 })) ?? []);
  await driver?.close();
  driver = undefined;
});

const open = async (): Promise<Driver> => {
  driver = await createContainerdDriver({ dir, clock: systemClock, random: Math.random, socket: containerd.socket, namespace });
  return driver;
};

const superviseElsewhere = (specs: readonly ProgramSpec[]) =>
  supervisors.supervise({ dir, socket: containerd.socket, namespace }, specs);

const waiting = (code: number): Pick<ProgramSpec, "command" | "isolation"> => ({
  command: ["/bin/sh", "-c", `echo here; echo ready >ready; while ! [ -e gate ]; do sleep 0.02; done; echo gone; exit ${code}`],
  isolation: { image },
});
const work = (id: string, file: string): string => join(dir, id, "work", file);

/** Cgroups of containers in the namespace. */
const groups = (): readonly string[] =>
  ["cpu", "memory", "pids", "unified", "."].flatMap((name) => {
    const folder = join("/sys/fs/cgroup", name, namespace);
    return existsSync(folder) ? readdirSync(folder).filter((entry) => entry.startsWith("keelson-")) : [];
  });
const groupsBefore = new Set(groups());

/** What containerd, runc and the kernel still hold for our programs. */
async function leftovers(): Promise<readonly string[]> {
  const api = createContainerdApi(containerd.socket, namespace);
  const { containers } = await api.containers.list({});
  const keys: string[] = [];
  for await (const { info } of api.snapshots.list({ snapshotter: "overlayfs" })) {
    keys.push(...info.map(({ name }) => name).filter((name) => name.startsWith("keelson-")));
  }
  const mounts = readFileSync("/proc/mounts", "latin1")
    .split("\n")
    .filter((line) => line.includes(home) && line.includes("rootfs"));
  const tasks = join(home, "c", "state", "io.containerd.runtime.v2.task", namespace);
  return [
    ...containers.map(({ id }) => id),
    ...keys,
    ...groups().filter((group) => !groupsBefore.has(group)),
    ...mounts,
    ...readdirSync(tasks),
  ];
}

test("knows every exit code after kill -9 of the supervisor", async () => {
  await superviseElsewhere([
    { id: "runs", ...waiting(7) },
    { id: "ends", ...waiting(9) },
  ]);
  await Promise.all([content(work("ends", "ready")), content(work("runs", "ready"))]);
  const api = createContainerdApi(containerd.socket, namespace);
  await supervisors.kill();
  writeFileSync(work("ends", "gate"), "");
  await api.tasks.wait({ containerId: programFolder(dir, "ends").tag });

  const next = await open();
  expect(next.get("runs")?.state).toMatchObject({ kind: "running" });
  expect(await next.get("ends")?.exited()).toMatchObject({ reason: "Error", exitCode: 9 });
  writeFileSync(work("runs", "gate"), "");
  expect(await next.get("runs")?.exited()).toMatchObject({ reason: "Error", exitCode: 7 });
  // Written without any supervisor.
  expect(readFileSync(join(dir, "ends", "stdout.log"), "utf8")).toBe("here\ngone\n");
  expect(await leftovers()).toEqual([]);
});

test("keeps programs running while containerd crashes and restarts, and learns their exit codes", async () => {
  const own = await open();
  const [runs, stops] = await Promise.all([
    own.start({ id: "runs", ...waiting(5) }),
    own.start({ id: "stops", ...waiting(0) }),
  ]);
  await Promise.all([content(work("runs", "ready")), content(work("stops", "ready"))]);
  await containerd.stop("SIGKILL");
  writeFileSync(work("runs", "gate"), "");
  containerd = await startLocalContainerd(join(home, "c"));
  expect(await runs.exited()).toMatchObject({ reason: "Error", exitCode: 5 });
  expect(await stops.stop()).toMatchObject({ reason: "Stopped", exitCode: 143 });
  expect(await leftovers()).toEqual([]);
});

test("starts nothing and leaves nothing if the supervisor dies between creating and starting the container", async () => {
  const first = await open();
  const program = await first.start({ id: "a", ...waiting(0) });
  await content(work("a", "ready"));
  await program.stop({ graceMs: 0 });
  await first.close();
  // As if the identity had been recorded but the task not started.
  const { tag } = programFolder(dir, "a");
  const api = createContainerdApi(containerd.socket, namespace);
  const bare = join(home, "bare");
  mkdirSync(join(bare, "bin"), { recursive: true });
  copyFileSync("/bin/busybox", join(bare, "bin", "busybox"));
  const spec = {
    process: { args: ["/bin/busybox", "true"], cwd: "/", user: { uid: 0, gid: 0 } },
    root: { path: bare },
    ociVersion: "1.0.2",
    mounts: [{ destination: "/proc", type: "proc", source: "proc" }],
  };
  await api.containers.create({
    container: {
      id: tag,
      runtime: { name: "io.containerd.runc.v2" },
      spec: {
        typeUrl: "types.containerd.io/opencontainers/runtime-spec/1/Spec",
        value: Buffer.from(JSON.stringify({ ...spec, linux: { namespaces: [{ type: "mount" }, { type: "pid" }] } })),
      },
    },
  });
  const { pid } = await api.tasks.create({ containerId: tag });
  const identity = { pid, startTime: 1, bootId: readFileSync("/proc/sys/kernel/random/boot_id", "latin1").trim() };
  writeFileSync(join(dir, "a", "state.json"), JSON.stringify({ kind: "running", identity, startedAt: 1 }));
  rmSync(join(dir, "a", "exit"));
  const next = await open();
  expect(await next.get("a")?.exited()).toMatchObject({ reason: "Lost", message: expect.stringContaining("never ran") });
  expect(await leftovers()).toEqual([]);
});

test("leaves nothing of a container that its creation's hook rejects", async () => {
  driver = await createContainerdDriver({
    dir,
    clock: systemClock,
    random: Math.random,
    socket: containerd.socket,
    namespace,
    onCreated: () => Promise.reject(new Error("no network")),
  });
  const program = await driver.start({ id: "a", ...waiting(0) });
  expect(await program.exited()).toMatchObject({ reason: "StartFailed", message: expect.stringContaining("no network") });
  expect(await leftovers()).toEqual([]);
});

test("removes containers whose directory was deleted when the driver opens, but none of other directories", async () => {
  const first = await open();
  await first.start({ id: "a", ...waiting(0) });
  await content(work("a", "ready"));
  await first.close();
  rmSync(join(dir, "a"), { recursive: true });
  const elsewhere = await createContainerdDriver({
    dir: join(base, "elsewhere"),
    clock: systemClock,
    random: Math.random,
    socket: containerd.socket,
    namespace,
  });
  expect((await leftovers()).length).toBeGreaterThan(0);
  await elsewhere.close();
  expect((await leftovers()).length).toBeGreaterThan(0);
  const next = await open();
  expect(next.list()).toEqual([]);
  expect(await leftovers()).toEqual([]);
  await next.close();
  driver = undefined;
  // Unless another containerd on this machine uses cgroups of the same name.
  if (groups().length === 0) {
    for (const name of ["cpu", "memory", "pids", "."]) expect(existsSync(join("/sys/fs/cgroup", name, namespace))).toBe(false);
  }
});

test("leaves no container, snapshot, task, shim, mount, cgroup, zombie, descriptor or file after 200 containers", async () => {
  const own = await open();
  const spec = (id: string): ProgramSpec => ({ id, command: ["true"], isolation: { image }, limits: { memoryBytes: 1 << 26 } });
  await (await own.start(spec("warm"))).exited();
  const descriptors = (): number => readdirSync("/proc/self/fd").length;
  const before = descriptors();
  for (let round = 0; round < 50; round++) {
    const programs = await Promise.all(Array.from({ length: 4 }, (_, index) => own.start(spec(`p${index}`))));
    const ends = await Promise.all(programs.map((program) => program.exited()));
    expect(ends.map(({ reason }) => reason)).toEqual(["Completed", "Completed", "Completed", "Completed"]);
    await Promise.all(programs.map((program) => program.remove()));
  }
  expect(await leftovers()).toEqual([]);
  expect(descriptors()).toBeLessThanOrEqual(before + 2);
  const processes = await listProcesses();
  expect(processes.filter((stat) => stat.parent === process.pid && stat.state === "Z")).toEqual([]);
  const shims = processes.filter(({ pid }) => {
    try {
      const line = readFileSync(`/proc/${pid}/cmdline`, "latin1");
      return line.includes("containerd-shim") && line.includes(home);
    } catch {
      return false;
    }
  });
  expect(shims).toEqual([]);
  expect(readdirSync(dir).filter((name) => !name.startsWith("."))).toEqual(["warm"]);
}, 600_000);
