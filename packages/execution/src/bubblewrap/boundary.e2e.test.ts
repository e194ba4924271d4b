import { spawn } from "node:child_process";
import { once } from "node:events";
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  realpathSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { createServer } from "node:net";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { systemClock } from "@keelson/api-machinery/time";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { Driver, Program, ProgramSpec, StartKind } from "../driver.ts";
import { content } from "../contract/setup.ts";
import { createBubblewrapDriver } from "./bubblewrap-driver.ts";
import { privateUser } from "./private-user.ts";
import { openProgramFolder } from "../program/files/program-folder.ts";
import { warmUp } from "../testing/warm-slots.ts";
import { hasStub } from "../stub/executable.ts";

/* What code in a sandbox can reach: each test is an attack. */

const isRoot = process.getuid?.() === 0;
let base: string;
let dir: string;
let driver: Driver;

beforeEach(async () => {
  base = realpathSync(mkdtempSync(join(tmpdir(), "keelson-boundary-")));
  // As below /root: only root may enter.
  chmodSync(base, 0o700);
  dir = join(base, "programs");
  driver = await createBubblewrapDriver({ dir, clock: systemClock, random: Math.random });
});

afterEach(async () => {
  await Promise.all(driver.list().map((program) => program.stop({ graceMs: 0 })));
  await Promise.all(driver.list().map((program) => program.remove()));
  await driver.close();
  rmSync(base, { recursive: true, force: true });
});

const isolation = { network: "none", hasPrivateUser: true } as const;

/** How the programs of a test start. */
let startKind: StartKind = "cold";

async function start(script: string, change: Partial<ProgramSpec> = {}, id = "a"): Promise<Program> {
  const spec: ProgramSpec = { id, command: ["/bin/sh", "-c", script], isolation, ...change };
  if (startKind !== "cold") await warmUp(driver, startKind, spec);
  const program = await driver.start(spec);
  expect(program.startKind).toBe(startKind);
  return program;
}

/** The output of a script in a sandbox. */
async function attack(script: string, spec: Partial<ProgramSpec> = {}): Promise<string> {
  const program = await start(script, spec);
  const exited = await program.exited();
  if (exited.reason === "StartFailed") throw new Error(exited.message);
  return readFileSync(program.logs.stdout, "utf8") + readFileSync(program.logs.stderr, "utf8");
}

/** The output of a Node.js program in a sandbox. */
const attackWithNode = (source: string): Promise<string> => attack(`exec ${process.execPath} -e '${source}'`);

/** Node.js may be outside of /usr, where a sandbox does not see it. */
const seesNode = process.execPath.startsWith("/usr/");

const kinds: readonly StartKind[] = hasStub() ? ["cold", "shell", "image"] : ["cold", "shell"];

describe.runIf(isRoot).each(kinds)("a program with a private user, started %s,", (kind) => {
  beforeEach(() => {
    startKind = kind;
  });

  test("is an unprivileged user of the host that owns nothing else", async () => {
    const program = await start("id -u; echo $$ >pid; exec sleep 600");
    await content(join(dir, "a", "work", "pid"));
    const { uid } = privateUser(openProgramFolder(dir, "a"));
    expect(readFileSync(program.logs.stdout, "utf8")).toBe("0\n");
    expect(statSync(join(dir, "a", "work", "pid")).uid).toBe(uid);
    expect(uid).toBeGreaterThan(1_879_000_000);
    expect(privateUser(openProgramFolder(dir, "b")).uid).not.toBe(uid);
    const session = await program.exec({ command: ["/bin/sh", "-c", "id -u; cat pid | wc -l; touch /tmp/mine && echo wrote"] });
    expect(await text(session.stdout)).toBe("0\n1\nwrote\n");
  });

  test("cannot read keys and passwords of the host", async () => {
    mkdirSync(join(base, "keys"));
    writeFileSync(join(base, "keys", "private"), "KEY", { mode: 0o600 });
    const paths = [
      "/etc/shadow",
      "/etc/ssl/private",
      "/etc/ssh",
      "/root",
      "/home",
      "/opt",
      "/var/lib",
      "/boot",
      join(base, "keys"),
    ];
    const out = await attack(
      `for path in ${paths.join(" ")}; do ls -A $path 2>/dev/null; cat $path 2>/dev/null; done; ls /etc`,
    );
    const settings = new Set(["group", "hosts", "nsswitch.conf", "passwd", "resolv.conf", "alternatives", "ld.so.cache"]);
    for (const name of [
      "ld.so.conf",
      "ld.so.conf.d",
      "localtime",
      "mime.types",
      "openmpi",
      "protocols",
      "services",
      "ssl",
      "terminfo",
    ])
      settings.add(name);
    expect(out.split("\n").filter((line) => line !== "" && !settings.has(line))).toEqual([]);
  });

  test("has no capabilities and cannot gain privileges with set-uid programs", async () => {
    const out = await attack(`grep -E "^(CapEff|CapPrm|CapBnd|NoNewPrivs|Seccomp):" /proc/self/status; cat /proc/self/uid_map`);
    // Root inside is an unprivileged id outside, including for set-uid programs.
    expect(out).toMatch(new RegExp(`\\s0\\s+${privateUser(openProgramFolder(dir, "a")).uid}\\s+1\\s*$`));
    expect(out).toMatch(/CapPrm:\s+0+\nCapEff:\s+0+\nCapBnd:\s+0+\nNoNewPrivs:\s+1\nSeccomp:\s+2\n/);
  });

  test("sees and signals its own processes only", async () => {
    const victim = spawn("sleep", ["600"]);
    try {
      const out = await attack(
        `ls /proc | grep -cE "^[0-9]+$"; kill -9 ${victim.pid} 2>/dev/null || echo refused; kill -9 -1; echo alive`,
      );
      expect(Number(out.split("\n")[0])).toBeLessThan(8);
      expect(victim.exitCode ?? victim.signalCode).toBeNull();
    } finally {
      victim.kill("SIGKILL");
    }
  });

  test("cannot write to /proc and /sys", async () => {
    const paths = [
      "/proc/sys/kernel/core_pattern",
      "/proc/sysrq-trigger",
      "/proc/sys/vm/overcommit_memory",
      "/sys/kernel/mm/x",
      "/proc/1/oom_score_adj",
    ];
    const out = await attack(
      `for path in ${paths.slice(0, 4).join(" ")}; do echo x >$path && echo wrote $path; done 2>/dev/null; ls /sys 2>/dev/null | wc -l`,
    );
    expect(out).toBe("0\n");
  });

  test("cannot create namespaces or mounts", async () => {
    const out = await attack(
      "unshare --user true && echo user; unshare --net true && echo net; mount -t tmpfs x /tmp && echo mount; true",
    );
    expect(out).not.toMatch(/^(user|net|mount)$/m);
  });

  test("reaches no listener of the host: neither loopback nor abstract sockets", async () => {
    const loopback = createServer((socket) => socket.on("error", () => {}).end("reached")).listen(0, "127.0.0.1");
    const abstract = createServer((socket) => socket.on("error", () => {}).end("reached")).listen("\0keelson-boundary-test");
    await Promise.all([once(loopback, "listening"), once(abstract, "listening")]);
    try {
      const { port } = loopback.address() as AddressInfo;
      const bash = existsSync("/usr/bin/bash");
      const out = await attack(
        `cat /proc/net/unix | grep -c keelson-boundary-test; tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d " ";${bash ? ` bash -c "exec 3<>/dev/tcp/127.0.0.1/${port} && cat <&3" 2>/dev/null;` : ""} true`,
      );
      expect(out).toBe("0\nlo\n");
    } finally {
      loopback.close();
      abstract.close();
    }
  });

  test("cannot reach another program's sockets, and squats on no address of the host", async () => {
    const listener = createServer();
    await start("echo ready >ready; exec sleep 600", {}, "other");
    await content(join(dir, "other", "work", "ready"));
    const probe = createServer().listen(0, "127.0.0.1");
    await once(probe, "listening");
    const { port } = probe.address() as AddressInfo;
    probe.close();
    if (seesNode) await attackWithNode(`require("net").createServer().listen(${port}, () => process.exit(0))`);
    listener.listen(port, "127.0.0.1");
    await once(listener, "listening");
    listener.close();
  });

  test("cannot exceed its quota in the work directory, /tmp or anywhere else", async () => {
    const fill = (path: string): string =>
      `head -c 200000000 /dev/zero >${path} 2>/dev/null; stat -c %s ${path} 2>/dev/null || echo none`;
    const places = ["big", "/tmp/big", "/run/big", "/var/tmp/big", "/dev/big", "/dev/shm/big", "/big", "/etc/big"];
    const program = await start(places.map(fill).join("; "), { limits: { diskBytes: 16 << 20, memoryBytes: 256 << 20 } });
    await program.exited();
    expect(program.limits.applied.diskBytes).toBe(16 << 20);
    const sizes = readFileSync(program.logs.stdout, "utf8").trim().split("\n");
    expect(sizes.slice(0, 2)).toEqual([String(16 << 20), String(16 << 20)]);
    const left = sizes.slice(2).filter((size) => size !== "none");
    expect(left).toEqual([]);
  });

  test("leaves its files but no mount behind when it exits, and nothing when it is removed", async () => {
    const script = "echo x >file; ln -s /etc/shadow link; while ! [ -e gate ]; do sleep 0.02; done";
    const program = await start(script, { limits: { diskBytes: 1 << 20 } });
    while (!existsSync(join(dir, "a", "work", "file"))) await new Promise((resolve) => setTimeout(resolve, 10));
    expect(readFileSync("/proc/self/mountinfo", "utf8")).toContain(join(dir, "a", "work"));
    writeFileSync(join(dir, "a", "work", "gate"), "");
    await program.exited();
    expect(readFileSync("/proc/self/mountinfo", "utf8")).not.toContain(join(dir, "a"));
    expect(readFileSync(join(dir, "a", "work", "file"), "utf8")).toBe("x\n");
    expect(readlinkSync(join(dir, "a", "work", "link"))).toBe("/etc/shadow");
    await program.remove();
    expect(existsSync(join(dir, "a"))).toBe(false);
  });

  test("frees its /tmp when it exits, although programs started meanwhile have copies of its mounts", async () => {
    const limits = { diskBytes: 1 << 20 };
    const first = await start("echo x >/tmp/file; while ! [ -e gate ]; do sleep 0.02; done", { limits });
    const second = await start("echo ready >ready; exec sleep 600", { limits }, "b");
    await content(join(dir, "b", "work", "ready"));
    const temporary = ` ${join(dir, "a", "tmp")} `;
    const hasCopy = (pid: string): boolean => {
      try {
        return readFileSync(`/proc/${pid}/mountinfo`, "utf8").includes(temporary);
      } catch {
        // It has ended.
        return false;
      }
    };
    const holders = (): string[] => readdirSync("/proc").filter((name) => /^\d+$/.test(name) && hasCopy(name));
    expect(holders()).not.toEqual([]);
    writeFileSync(join(dir, "a", "work", "gate"), "");
    await first.exited();
    await expect.poll(holders, { timeout: 60_000 }).toEqual([]);
    expect(second.state.kind).toBe("running");
  });

  test("is stopped by its process and memory limits", async () => {
    const bomb = await start("i=0; while [ $i -lt 200 ]; do sleep 60 & i=$((i + 1)); done; echo all", { limits: { pids: 20 } });
    await bomb.exited();
    if (bomb.limits.applied.pids !== undefined) expect(readFileSync(bomb.logs.stdout, "utf8")).toBe("");
    const hog = await start(
      "head -c 300000000 /dev/zero | tail -c 300000000 >/dev/null",
      { limits: { memoryBytes: 48 << 20 } },
      "hog",
    );
    const exited = await hog.exited();
    if (hog.limits.applied.memoryBytes !== undefined) expect(exited.exitCode).toBe(137);
  });

  test("has its work directory and quota in another working directory too", async () => {
    const out = await attack("pwd; touch /work/file && echo wrote", { cwd: "/tmp", limits: { diskBytes: 1 << 20 } });
    expect(out).toBe("/tmp\nwrote\n");
  });

  test("is found again, with its files, by the next driver", async () => {
    await start("echo ready >ready; exec sleep 600", { limits: { diskBytes: 1 << 20 } });
    await content(join(dir, "a", "work", "ready"));
    await driver.close();
    driver = await createBubblewrapDriver({ dir, clock: systemClock, random: Math.random });
    const program = driver.get("a");
    expect(program?.state.kind).toBe("running");
    expect(program?.limits.applied.diskBytes).toBe(1 << 20);
    const session = await program?.exec({ command: ["cat", "ready"] });
    expect(session && (await text(session.stdout))).toBe("ready\n");
  });
});
