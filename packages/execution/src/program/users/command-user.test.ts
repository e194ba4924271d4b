import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, symlinkSync, truncateSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test, vi } from "vitest";
import { readAccountFile } from "./account-file.ts";
import { resolveCommandUser } from "./command-user.ts";

const accounts = {
  passwd: "root:x:0:0:root:/root:/bin/sh\npostgres:x:70:70::/var/lib/postgresql:/bin/sh\nweb:x:33:33:::\n",
  group: "root:x:0:root\npostgres:x:70:\nssl:x:101:web,postgres\nbad:x::postgres\ntape:x:26:postgres,\n",
};

test("resolves a user with its home and its groups, which an explicit group replaces", () => {
  const postgres = { uid: 70, gid: 70, groups: [101, 26], home: "/var/lib/postgresql" };
  expect(resolveCommandUser("postgres", accounts)).toEqual(postgres);
  expect(resolveCommandUser("70", accounts)).toEqual(postgres);
  expect(resolveCommandUser("70:7", accounts)).toEqual({ ...postgres, gid: 7, groups: [] });
  expect(resolveCommandUser("1000", accounts)).toEqual({ uid: 1000, gid: 1000, groups: [], home: "/" });
  expect(resolveCommandUser("root", accounts)).toEqual({ uid: 0, gid: 0, groups: [], home: "/root" });
});

test("rejects unknown users, invalid ids and users of too many groups", () => {
  const group = Array.from({ length: 65 }, (_, index) => `g${index}:x:${1000 + index}:web\n`).join("");
  const rejected = (user: string, problem: string): void =>
    expect(() => resolveCommandUser(user, { ...accounts, group })).toThrow(
      expect.objectContaining({ code: "InvalidSpec", message: problem }),
    );
  rejected("mysql", "user: mysql not found in the program's root");
  rejected("4294967295", "user: 4294967295: ids must not exceed 4294967294");
  rejected("web", "user: web must be in at most 64 groups, not 65");
});

test("reads only regular files of limited size, and does not wait for a writer", () => {
  const dir = mkdtempSync(join(tmpdir(), "accounts-"));
  onTestFinished(() => rmSync(dir, { recursive: true }));
  const at = (name: string): string => join(dir, name);
  writeFileSync(at("passwd"), accounts.passwd);
  writeFileSync(at("large"), "");
  truncateSync(at("large"), 256 * 1024 + 1);
  symlinkSync("passwd", at("link"));
  execFileSync("mkfifo", [at("fifo")]);
  const read = ["passwd", "large", "link", "fifo", "missing", "."].map((name) => readAccountFile(at(name)));
  expect(read).toEqual([accounts.passwd, "", "", "", "", ""]);
});

test("splits few lines of files that a program has filled to slow the lookup down", () => {
  const split = vi.spyOn(String.prototype, "split");
  onTestFinished(() => split.mockRestore());
  const sizeBytes = 256 * 1024;
  for (const filler of ["\n", ":", "x:\n", "a:0:0:0\n", ",", ":70\n", ":x:7:postgres_\n", "postgres_:x:70_:\n", "postgres\n"]) {
    const text = filler.repeat(sizeBytes / filler.length);
    const hostile = { passwd: `${text}\n${accounts.passwd}`, group: `${text}\n${accounts.group}` };
    split.mockClear();
    expect(resolveCommandUser("postgres", hostile).groups).toEqual([101, 26]);
    expect(resolveCommandUser("70", hostile).home).toBe("/var/lib/postgresql");
    expect(split.mock.calls.length).toBeLessThan(50);
  }
});
