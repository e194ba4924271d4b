import { mkdirSync, mkdtempSync, readdirSync, readFileSync, realpathSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { systemClock } from "@keelson/api-machinery/time";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import type { Driver, Program, ProgramSpec } from "../driver.ts";
import { openImage } from "../images/image-layout.ts";
import { createBusyboxImage } from "../testing/busybox-image.ts";
import { startLocalContainerd } from "../testing/local-containerd.ts";
import type { LocalContainerd } from "../testing/local-containerd.ts";
import { createContainerdDriver } from "./containerd-driver.ts";
import { openContainerdImages } from "./image-import.ts";
import type { ContainerdImages, ImportProgress } from "./image-import.ts";

let home: string;
let containerd: LocalContainerd;
let images: ContainerdImages;
let driver: Driver;
const progress: ImportProgress[] = [];
const name = "example.org/busybox:1";

async function importBusybox(): Promise<void> {
  const image = await openImage(join(home, "busybox.tar"), { temporary: home });
  try {
    await images.add(name, image, (step) => progress.push(step));
  } finally {
    await image.close();
  }
}

beforeAll(async () => {
  home = realpathSync(mkdtempSync(join(tmpdir(), "ctrd-")));
  containerd = await startLocalContainerd(join(home, "c"));
  await createBusyboxImage(join(home, "busybox.tar"));
  images = await openContainerdImages({ socket: containerd.socket, random: Math.random, now: Date.now });
  await importBusybox();
});

afterAll(async () => {
  await containerd.stop();
  rmSync(home, { recursive: true, force: true });
});

beforeEach(async () => {
  const dir = join(mkdtempSync(join(home, "driver-")), "programs");
  driver = await createContainerdDriver({ dir, clock: systemClock, random: Math.random, socket: containerd.socket });
});

afterEach(async () => {
  await Promise.all(driver.list().map((program) => program.stop({ graceMs: 0 })));
  await driver.close();
});

const inImage = (spec: Omit<ProgramSpec, "id">): Promise<Program> =>
  driver.start({ id: "a", isolation: { image: name }, ...spec });

async function output(script: string, spec: Partial<ProgramSpec> = {}): Promise<string> {
  const program = await inImage({ command: ["sh", "-c", script], ...spec });
  const ended = await program.exited();
  if (ended.reason === "StartFailed") throw new Error(ended.message);
  return readFileSync(program.logs.stdout, "utf8") + readFileSync(program.logs.stderr, "utf8");
}

test("imports an image layer by layer under its name, and only once", async () => {
  expect(progress.map(({ phase, layer, layers }) => `${phase} ${layer}/${layers}`)).toEqual([
    "store 1/2",
    "store 2/2",
    "unpack 1/2",
    "unpack 2/2",
  ]);
  expect((await images.list()).map((each) => each.name)).toEqual([name]);
  expect(await images.find(name)).toMatchObject({ command: ["/bin/sh"], env: { FROM_IMAGE: "yes" } });
  await importBusybox();
  expect(await images.list()).toHaveLength(1);
});

test("runs a program with its image's layers, its environment and a writable root", async () => {
  const script = "cat /etc/motd; ls /etc; echo $FROM_IMAGE $MINE; pwd; echo x >/written && echo y >y && echo wrote; ls /usr";
  const seen = await output(script, { env: { MINE: "too" } });
  expect(seen).toMatch(/^above\n[^]*passwd\n[^]*yes too\n\/work\nwrote\n/);
  expect(seen).not.toContain("gone");
  expect(seen).toContain("/usr: No such file");
});

test("keeps a program's writes out of the image", async () => {
  expect(await output("echo x >/etc/motd; cat /etc/motd")).toBe("x\n");
  await driver.get("a")?.remove();
  expect(await output("cat /etc/motd")).toBe("above\n");
});

test("resolves a user of the image by name or number", async () => {
  expect(await output("id -u; id -g; touch own && echo own", { user: "worker" })).toBe("1234\n1235\nown\n");
  await driver.get("a")?.remove();
  expect(await output("id -u", { user: "7:8" })).toBe("7\n");
  await driver.get("a")?.remove();
  const program = await inImage({ command: ["true"], user: "nobody-here" });
  expect(await program.exited()).toMatchObject({ reason: "StartFailed", message: expect.stringContaining("nobody-here") });
});

test("reports StartFailed for an unknown image, a missing program and a file that is not executable", async () => {
  const unknown = await driver.start({ id: "u", command: ["true"], isolation: { image: "example.org/none:1" } });
  expect(await unknown.exited()).toMatchObject({
    reason: "StartFailed",
    message: expect.stringContaining("example.org/none:1"),
  });
  const missing = await driver.start({ id: "m", command: ["python3"], isolation: { image: name } });
  expect(await missing.exited()).toMatchObject({ reason: "StartFailed", exitCode: 127 });
  const plain = await driver.start({ id: "p", command: ["/etc/motd"], isolation: { image: name } });
  expect(await plain.exited()).toMatchObject({ reason: "StartFailed", exitCode: 126 });
});

test("reports OOMKilled above the memory limit, and the applied limits", async () => {
  const limits = { memoryBytes: 24 * 1024 * 1024, pids: 20, cpuMillis: 500 };
  const program = await inImage({ command: ["sh", "-c", "x=xxxxxxxxxxxxxxxx; while :; do x=$x$x; done"], limits });
  expect(program.limits).toEqual({ applied: limits });
  expect(await program.exited()).toMatchObject({ reason: "OOMKilled", exitCode: 137 });
});

test("runs a command alongside a program with its files and a terminal", async () => {
  const program = await inImage({ command: ["sleep", "600"] });
  const session = await program.exec({
    command: ["sh", "-c", "cat /etc/motd; tty; stty size"],
    terminal: { columns: 99, rows: 9 },
  });
  expect((await text(session.stdout)).split("\r\n")).toEqual(["above", "/dev/pts/0", "9 99", ""]);
});

test("prevents programs and commands from creating namespaces, and filters system calls, even for root", async () => {
  // Uses the machine's own programs, because the image has no unshare(1).
  const script =
    "unshare --mount true; unshare --user true; grep ^Seccomp: /proc/self/status; grep ^NoNewPrivs /proc/self/status";
  const program = await driver.start({ id: "a", command: ["/bin/sh", "-c", "exec sleep 600"] });
  const session = await program.exec({ command: ["/bin/sh", "-c", script] });
  const [out, error] = await Promise.all([text(session.stdout), text(session.stderr ?? session.stdout)]);
  expect(out).toMatch(/^Seccomp:\s+2\nNoNewPrivs:\s+1\n$/);
  expect(error.match(/not permitted/g)).toHaveLength(2);
});

test("runs from an unpacked image without modifying it", async () => {
  const root = join(home, "folder");
  mkdirSync(join(root, "bin"), { recursive: true });
  const { copyFileSync } = await import("node:fs");
  copyFileSync("/bin/busybox", join(root, "bin", "sh"));
  expect(await output("echo x >/written && echo wrote", { isolation: { root }, env: { PATH: "/bin" } })).toBe("wrote\n");
  expect(readdirSync(root)).toEqual(["bin"]);
});

test("rejects a damaged layer and stores nothing of the image", async () => {
  const image = await openImage(join(home, "busybox.tar"), { temporary: home });
  try {
    const [first, second] = image.config.diffIds;
    const config = { ...image.config, diffIds: [second ?? "", first ?? ""] };
    await expect(images.add("example.org/damaged:1", { ...image, config })).rejects.toThrow();
  } finally {
    await image.close();
  }
  expect(await images.find("example.org/damaged:1")).toBeUndefined();
});

test("does not run programs from a removed image", async () => {
  expect(await images.remove(name)).toBe(true);
  expect(await images.remove(name)).toBe(false);
  const program = await inImage({ command: ["true"] });
  expect(await program.exited()).toMatchObject({ reason: "StartFailed" });
  await importBusybox();
});
