import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { parseHierarchies } from "./cgroup/cgroup-hierarchies.ts";
import { lockFolder } from "./files/folder-lock.ts";
import { readLogTail } from "./logs/log-tail.ts";
import { rotateIfLarge } from "./logs/log-rotation.ts";
import { parseStat } from "./process/proc.ts";
import { parseRecord, serialiseRecord } from "./program/program-record.ts";
import { resolveUser } from "./program/user.ts";

function inFolder<T>(use: (folder: string) => T): T {
  const folder = mkdtempSync(join(tmpdir(), "keelson-files-"));
  const clean = (): void => rmSync(folder, { recursive: true, force: true });
  const result = use(folder);
  if (result instanceof Promise) return result.finally(clean) as T;
  clean();
  return result;
}

test("a process's start time is found behind a name with spaces and parentheses", () => {
  const line = "42 (a) b (c) S 1 40 41 0 -1 4194560 100 0 0 0 7 5 0 0 20 0 1 0 987654 1000 3 0";
  expect(parseStat(line)).toEqual({
    pid: 42,
    state: "S",
    parent: 1,
    group: 40,
    session: 41,
    cpuTicks: 12,
    startTime: 987654,
    residentBytes: 3 * 4096,
  });
  expect(parseStat("")).toBeUndefined();
});

test("hierarchies of control groups are found with the own group in each", () => {
  const mounts =
    "cgroup /sys/fs/cgroup/cpu cgroup rw,relatime,cpu 0 0\ncgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\ntmpfs / tmpfs rw 0 0\n";
  expect(parseHierarchies({ mounts, membership: "3:cpu,cpuacct:/a\n0::/b/c\n" })).toEqual([
    { version: 1, mount: "/sys/fs/cgroup/cpu", controllers: ["cpu"], own: "/a" },
    { version: 2, mount: "/sys/fs/cgroup/unified", controllers: [], own: "/b/c" },
  ]);
});

test("a user is a name, a uid or uid:gid", () => {
  const passwd = "root:x:0:0:root:/root:/bin/sh\nrobot:x:1000:1001::/home/robot:/bin/sh\n";
  expect(resolveUser("robot", passwd)).toEqual({ uid: 1000, gid: 1001 });
  expect(resolveUser("1000", passwd)).toEqual({ uid: 1000, gid: 1001 });
  expect(resolveUser("7", passwd)).toEqual({ uid: 7, gid: 7 });
  expect(resolveUser("7:8", passwd)).toEqual({ uid: 7, gid: 8 });
  expect(resolveUser("nobody", passwd)).toEqual({ problem: "there is no user nobody on this machine" });
  expect(resolveUser("99999999999", passwd)).toHaveProperty("problem");
});

test("a log that outgrew its limit is moved on, its end is kept, and no more files than allowed", () => {
  inFolder((folder) => {
    const log = join(folder, "stdout.log");
    for (const content of ["1".repeat(11), "2".repeat(11), `x${"3".repeat(29)}`, "4"]) {
      writeFileSync(log, content);
      expect(rotateIfLarge(log, { maxBytes: 10, maxFiles: 3 })).toBe(content.length > 10);
    }
    expect(readFileSync(log, "utf8")).toBe("4");
    expect(readFileSync(`${log}.1`, "utf8")).toBe("3".repeat(10));
    expect(readFileSync(`${log}.2`, "utf8")).toBe("2".repeat(10));
    expect(() => readFileSync(`${log}.3`)).toThrow("ENOENT");
  });
});

test("the tail of a log reaches into its rotated part and starts at a whole character", async () => {
  await inFolder(async (folder) => {
    const log = join(folder, "stdout.log");
    writeFileSync(`${log}.1`, "12€");
    writeFileSync(log, "345");
    expect(await readLogTail(log, 100)).toBe("12€345");
    expect(await readLogTail(log, 6)).toBe("€345");
    expect(await readLogTail(log, 5)).toBe("345");
    expect(await readLogTail(join(folder, "none"), 5)).toBe("");
  });
});

test("a record is read as it was written, and anything else is none", () => {
  const record = { kind: "running", identity: { shimPid: 1 }, startedAt: 5, stop: { reason: "Timeout", graceMs: 3 } } as const;
  expect(parseRecord(serialiseRecord(record))).toEqual(record);
  for (const text of ["", "{", "null", "[]", '{"kind":"running"}', '{"kind":"exited","exited":{}}'])
    expect(parseRecord(text)).toBeUndefined();
});

test("of contenders for a folder with a dead holder exactly one wins, and a release lets the next in", async () => {
  await inFolder(async (folder) => {
    writeFileSync(join(folder, ".lock-4"), JSON.stringify({ pid: process.pid, startTime: 1, bootId: "x" }));
    const results = await Promise.allSettled(Array.from({ length: 8 }, () => lockFolder(folder, Math.random)));
    const won = results.flatMap((result) => (result.status === "fulfilled" ? [result.value] : []));
    expect(won).toHaveLength(1);
    const refused = results.flatMap((result) => (result.status === "rejected" ? [result.reason] : []));
    expect(refused).toMatchObject(Array.from({ length: 7 }, () => ({ code: "FolderInUse" })));
    await won[0]?.release();
    await (await lockFolder(folder, Math.random)).release();
  });
});
