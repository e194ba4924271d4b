import { existsSync, readFileSync } from "node:fs";
import { mkdtemp, readdir, readFile, rm, symlink } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { systemClock } from "@keelson/api-machinery/time";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { ServerProcess } from "./server-process.ts";

let folder: string;
beforeEach(async () => void (folder = await mkdtemp(join(tmpdir(), "guard-"))));
afterEach(async () => {
  vi.unstubAllEnvs();
  await rm(folder, { recursive: true });
});

interface Found {
  readonly pid: number;
  readonly parent: number;
  readonly group: number;
  readonly command: string;
}

async function processes(): Promise<readonly Found[]> {
  const read = async (pid: string): Promise<Found | undefined> => {
    try {
      const stat = await readFile(`/proc/${pid}/stat`, "utf8");
      const [state, parent, group] = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
      if (state === "Z") return undefined;
      const command = (await readFile(`/proc/${pid}/cmdline`, "utf8")).replaceAll("\0", " ");
      return { pid: Number(pid), parent: Number(parent), group: Number(group), command };
    } catch {
      // It has ended in the meantime.
      return undefined;
    }
  };
  const found = await Promise.all((await readdir("/proc")).filter((name) => /^\d+$/.test(name)).map(read));
  return found.flatMap((each) => each ?? []);
}

/** The processes of a guard: itself, and while it has a deadline its timer, which waits for a `sleep`. */
async function guardOf(pid: number): Promise<readonly Found[]> {
  const all = await processes();
  const guard = all.find(({ command, group, pid: own }) => command.includes(`keelson-guard ${pid} `) && group === own);
  return all.filter(({ group }) => group === guard?.pid);
}

const wait = { timeout: 20_000 };

describe.each(["dash", "bash", "busybox"].filter((shell) => existsSync(`/bin/${shell}`)))("a guard in %s", (shell) => {
  beforeEach(async () => {
    await symlink(`/bin/${shell}`, join(folder, "sh"));
    vi.stubEnv("PATH", `${folder}:${process.env["PATH"] ?? ""}`);
  });

  it("kills a program and its children when its last deadline has passed", async () => {
    const server = new ServerProcess("/bin/bash", systemClock, { killsChildren: true });
    const pid = server.start(["-c", "sleep 600 & sleep 600 & wait"], "/") ?? 0;
    const children = async (): Promise<number> => (await processes()).filter(({ parent }) => parent === pid).length;
    await vi.waitFor(async () => expect(await children()).toBe(2), wait);
    const left = (await processes()).filter(({ parent }) => parent === pid);
    server.guard(60_000);
    await vi.waitFor(async () => expect(await guardOf(pid)).toHaveLength(3), wait);
    server.guard(undefined);
    await vi.waitFor(async () => expect(await guardOf(pid)).toHaveLength(1), wait);
    server.guard(50_000);
    server.guard(100);
    await expect(server.ended).resolves.toContain("SIGKILL");
    const running = new Set((await processes()).map((each) => each.pid));
    expect(left.filter((each) => running.has(each.pid))).toEqual([]);
    await vi.waitFor(
      async () => expect((await processes()).filter(({ command }) => command.includes(`keelson-guard ${pid} `))).toEqual([]),
      wait,
    );
  });

  it("kills a program and its children if a renewal comes too late", async () => {
    const server = new ServerProcess("/bin/bash", systemClock, { killsChildren: true });
    const pid = server.start(["-c", "for i in {1..60}; do sleep 600 & done; wait"], "/") ?? 0;
    const children = async (): Promise<readonly Found[]> => (await processes()).filter(({ parent }) => parent === pid);
    await vi.waitFor(async () => expect(await children()).toHaveLength(60), wait);
    const left = await children();
    server.guard(200);
    // The guard stops the program before it walks /proc, which usually takes longer than the renewal.
    const isStopped = (): boolean =>
      !existsSync(`/proc/${pid}/stat`) || / [TZ] /.test(readFileSync(`/proc/${pid}/stat`, "utf8"));
    await vi.waitFor(() => expect(isStopped()).toBe(true), { ...wait, interval: 1 });
    server.guard(60_000);
    await expect(server.ended).resolves.toContain("SIGKILL");
    const running = new Set((await processes()).map((each) => each.pid));
    expect(left.filter((each) => running.has(each.pid))).toEqual([]);
  });

  it("ends with its timer when the program is stopped", async () => {
    const server = new ServerProcess("sleep", systemClock);
    const pid = server.start(["600"], "/") ?? 0;
    server.guard(60_000);
    await vi.waitFor(async () => expect(await guardOf(pid)).toHaveLength(3), wait);
    const guard = await guardOf(pid);
    await server.stop({ timeoutMs: 10_000, force: true });
    const isLeft = (each: Found): boolean => guard.some(({ pid: own }) => own === each.pid);
    await vi.waitFor(async () => expect((await processes()).filter(isLeft)).toEqual([]), wait);
  });
});
