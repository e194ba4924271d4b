import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import {
  chmodSync,
  closeSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join, relative } from "node:path";
import { Readable } from "node:stream";
import { text } from "node:stream/consumers";
import { type Clock, systemClock } from "@keelson/api-machinery/time";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { createBubblewrapDriver } from "./bubblewrap-driver.ts";
import { openUnpackedImages } from "../images/unpacked-images.ts";
import { createBusyboxImage } from "../testing/busybox-image.ts";
import { cgroupViewRules } from "../contract/cgroup-view.ts";
import { content } from "../contract/setup.ts";
import { driverContract } from "../contract/driver-contract.ts";
import type { Driver, ProgramSpec } from "../driver.ts";
import { openProgramRoot } from "../program/program-root.ts";
import { outsidePid } from "../testing/outside-pid.ts";

let base: string;

beforeEach(() => {
  base = realpathSync(mkdtempSync(join(tmpdir(), "keelson-bwrap-")));
});

afterEach(() => {
  rmSync(base, { recursive: true, force: true });
});

const users = {
  "a program of the host's root": {},
  "a program of another user": { user: "1234" },
  "a program with a private user": { isolation: { hasPrivateUser: true } },
};
const rules = [...driverContract, ...(process.getuid?.() === 0 ? cgroupViewRules(users) : [])];

for (const [cgroups, cgroupParent] of [
  ["with", undefined],
  ["without", false],
] as const) {
  describe(`bubblewrap driver ${cgroups} cgroups`, () => {
    test.each(rules.map((rule) => [rule.title, rule] as const))("%s", async (_, rule) => {
      const dir = join(base, "programs");
      // For programs of other users.
      chmodSync(base, 0o711);
      const binds = [{ source: base, target: base, isWritable: true }];
      const options = { dir, clock: systemClock, random: Math.random, binds, ...(cgroupParent === false && { cgroupParent }) };
      const setup = {
        dir,
        open: () => createBubblewrapDriver(options),
        outsidePid: (id: string, pid: number) => outsidePid(dir, id, pid),
      };
      await expect(rule.run(setup)).resolves.toBeUndefined();
    });
  });
}

describe("a program in bubblewrap", () => {
  let driver: Driver;
  beforeEach(async () => {
    driver = await createBubblewrapDriver({ dir: join(base, "programs"), clock: systemClock, random: Math.random });
  });
  afterEach(async () => {
    await Promise.all(driver.list().map((program) => program.stop({ graceMs: 0 })));
    await driver.close();
  });

  async function output(script: string, spec: Partial<ProgramSpec> = {}): Promise<string> {
    const program = await driver.start({ id: "a", command: ["/bin/sh", "-c", script], ...spec });
    await program.exited();
    return readFileSync(program.logs.stdout, "utf8") + readFileSync(program.logs.stderr, "utf8");
  }

  test("sees its own processes only and has no capabilities", async () => {
    const seen = await output("ls /proc | grep -c '^[0-9]'; grep -E '^(CapEff|CapBnd|NoNewPrivs)' /proc/self/status");
    const [count, ...rest] = seen.trim().split("\n");
    expect(Number(count)).toBeLessThan(6);
    expect(rest.map((line) => line.split(/\s+/))).toEqual(
      [
        ["CapBnd:", "0000000000000000"],
        ["CapEff:", "0000000000000000"],
        ["NoNewPrivs:", "1"],
      ].sort(
        (one, other) =>
          rest.findIndex((line) => line.startsWith(one[0] ?? "")) - rest.findIndex((line) => line.startsWith(other[0] ?? "")),
      ),
    );
  });

  test("cannot write outside its own directories, nor read the machine's directories and passwords", async () => {
    writeFileSync(join(base, "secret"), "secret");
    // Its own directories are below this one.
    const own = relative("/tmp", base).split("/")[0] ?? "";
    const seen = await output(
      `for path in /usr/x /etc/x /x; do touch $path 2>/dev/null && echo "wrote $path"; done
       cat ${join(base, "secret")} /root/.profile /etc/shadow 2>/dev/null; ls -A /tmp | grep -vx ${own}; touch /tmp/x /run/x x && echo own`,
    );
    expect(seen).toBe("own\n");
  });

  test("does not affect its starter with loader variables", async () => {
    const seen = await output("echo $LD_PRELOAD $PATH", { env: { LD_PRELOAD: "/nowhere.so", PATH: "/usr/bin:/bin" } });
    // The shell inside complains; neither the shim's shell nor bwrap has anything to complain about.
    expect(seen.match(/ERROR: ld.so/g)).toHaveLength(1);
    expect(seen).toContain("/nowhere.so /usr/bin:/bin");
  });

  test("has only a loopback interface with network none", async () => {
    const shared = await output("ls /sys/class/net 2>/dev/null; cat /proc/net/dev | wc -l");
    await driver.get("a")?.remove();
    const none = await output("tail -n +3 /proc/net/dev | cut -d: -f1", { isolation: { network: "none" } });
    expect(none.trim()).toBe("lo");
    expect(shared).not.toBe("");
  });

  test.runIf(process.getuid?.() === 0)("joins a network namespace as its own user", async () => {
    const holder = spawn("unshare", ["--net", "sh", "-c", "echo && exec sleep 1000"], { stdio: ["ignore", "pipe", "inherit"] });
    try {
      await once(holder.stdout, "data");
      const networkNamespace = `/proc/${holder.pid}/ns/net`;
      chmodSync(base, 0o755);
      const program = await driver.start({
        id: "a",
        user: "65534:65534",
        command: ["/bin/sh", "-c", "id -u; id -g; readlink /proc/self/ns/net; exec sleep 1000"],
        isolation: { network: "none", networkNamespace },
      });
      const expected = `65534\n65534\n${readlinkSync(networkNamespace)}\n`;
      await expect.poll(() => readFileSync(program.logs.stdout, "utf8"), { timeout: 60_000 }).toBe(expected);
    } finally {
      holder.kill("SIGKILL");
    }
  });

  test.runIf(process.getuid?.() === 0).each([
    ["a user of the machine", {}],
    ["a private user", { hasPrivateUser: true }],
    ["a private user without a network", { hasPrivateUser: true, network: "none" }],
  ] as const)("runs commands alongside it as %s other than root, in its namespaces", async (_, isolation) => {
    chmodSync(base, 0o755);
    const program = await driver.start({
      id: "a",
      user: "65534:65534",
      command: ["/bin/sh", "-c", "readlink /proc/self/ns/pid /proc/self/ns/net; exec sleep 1000"],
      isolation,
      limits: { diskBytes: (1 << 20) - 1 },
    });
    await expect.poll(() => readFileSync(program.logs.stdout, "utf8").split("\n").length, { timeout: 60_000 }).toBe(3);
    const script =
      "readlink /proc/self/ns/pid /proc/self/ns/net; id -u; id -g; grep -E '^(Seccomp|CapEff|CapBnd|NoNewPrivs):' /proc/self/status; unshare --user true 2>/dev/null || echo confined; pgrep -x sleep >/dev/null && echo alongside; cat /proc/[0-9]*/comm | grep -c vitest; ls /proc/1/root 2>/dev/null; readlink /proc/self/fd/* | grep -E '^(pid|user):'; ulimit -f";
    const session = await program.exec({ command: ["/bin/sh", "-c", script] });
    session.stdin.end();
    const [output, errors] = await Promise.all([text(session.stdout), text(session.stderr ?? Readable.from([]))]);
    const fileBlocks = "hasPrivateUser" in isolation ? "2048" : "unlimited";
    const status = ["CapEff:\t0000000000000000", "CapBnd:\t0000000000000000", "NoNewPrivs:\t1", "Seccomp:\t2"];
    const expected = [...["65534", "65534"], ...status, "confined", "alongside", "0", fileBlocks, ""].join("\n");
    expect(errors).toBe("");
    expect(output).toBe(readFileSync(program.logs.stdout, "utf8") + expected);
    const trap = "trap 'exit 7' TERM; echo ready; while :; do sleep 0.05; done";
    const signalled = await program.exec({ command: ["/bin/sh", "-c", trap] });
    await once(signalled.stdout, "data");
    await signalled.signal("SIGTERM");
    expect(await signalled.exited()).toEqual({ exitCode: 7 });
  });

  test.runIf(process.getuid?.() === 0).each([
    ["without a network", { network: "none" }, undefined],
    ["with the machine's network", {}, undefined],
    ["on a terminal", { network: "none" }, { columns: 80, rows: 24 }],
  ] as const)("limits the file size of commands alongside it %s like its own", async (_, isolation, terminal) => {
    const program = await driver.start({
      id: "a",
      command: ["/bin/sh", "-c", "ulimit -f; exec sleep 1000"],
      isolation: { ...isolation, hasPrivateUser: true },
      limits: { diskBytes: (1 << 20) - 1 },
    });
    await expect.poll(() => readFileSync(program.logs.stdout, "utf8"), { timeout: 60_000 }).toBe("2048\n");
    const session = await program.exec({
      command: ["/bin/sh", "-c", "ulimit -f"],
      ...(terminal !== undefined && { terminal }),
    });
    expect((await text(session.stdout)).replaceAll("\r", "")).toBe("2048\n");
  });

  test("cannot create namespaces or mounts, nor can a command alongside it", async () => {
    const script =
      "unshare --user true; unshare --mount true; mount -t tmpfs x /tmp; grep ^Seccomp: /proc/self/status; echo end";
    const program = await driver.start({ id: "a", command: ["/bin/sh", "-c", `${script}; exec sleep 600`] });
    const session = await program.exec({ command: ["/bin/sh", "-c", script] });
    const [out, error] = await Promise.all([text(session.stdout), text(session.stderr ?? Readable.from([]))]);
    expect(out).toMatch(/^Seccomp:\s+2\nend\n$/);
    expect(error.match(/not permitted|permission denied|must be superuser/gi)).toHaveLength(3);
    while (!readFileSync(program.logs.stdout, "utf8").endsWith("end\n"))
      await new Promise((resolve) => setTimeout(resolve, 10));
    expect(readFileSync(program.logs.stdout, "utf8")).toBe(out);
    expect(readFileSync(program.logs.stderr, "utf8").match(/not permitted|permission denied|must be superuser/gi)).toHaveLength(
      3,
    );
  });

  test("isolates commands alongside it in the same way", async () => {
    const program = await driver.start({ id: "a", command: ["sleep", "600"], isolation: { network: "none", hostname: "box" } });
    const script =
      "tail -n +3 /proc/net/dev | cut -d: -f1; hostname; grep -E '^(CapEff|CapBnd)' /proc/self/status; touch /etc/x /x; ls /proc";
    const session = await program.exec({ command: ["/bin/sh", "-c", script] });
    const [network, host, ...rest] = (await text(session.stdout)).trim().split("\n");
    expect([network?.trim(), host]).toEqual(["lo", "box"]);
    expect(rest.slice(0, 2)).toEqual([expect.stringMatching(/:\s*0+$/), expect.stringMatching(/:\s*0+$/)]);
    expect(rest.filter((line) => /^\d+$/.test(line)).length).toBeLessThan(8);
    expect(session.stderr && (await text(session.stderr)).match(/Read-only file system/g)).toHaveLength(2);
  });

  test("can have mounts with the names that bubblewrap uses while it starts", async () => {
    chmodSync(base, 0o755);
    const hasPrivateUser = process.getuid?.() === 0;
    const binds = ["/newroot", "/oldroot"].map((target) => ({ source: mkdtempSync(join(base, "volume-")), target }));
    for (const { source, target } of binds) {
      chmodSync(source, 0o755);
      writeFileSync(join(source, "name"), target);
    }
    const program = await driver.start({ id: "a", command: ["sleep", "600"], isolation: { hasPrivateUser, binds } });
    const session = await program.exec({ command: ["cat", "/newroot/name", "/oldroot/name"] });
    expect(await text(session.stdout)).toBe("/newroot/oldroot");
    if (!hasPrivateUser) return;
    const root = openProgramRoot(program);
    expect(root && readdirSync(`/proc/self/fd/${root.fd}/oldroot`)).toEqual(["name"]);
    if (root !== undefined) closeSync(root.fd);
  });

  test("delays commands alongside it until it has its users and its root", async () => {
    const [fifo, released, pauses] = [join(base, "go"), join(base, "released"), { count: 0 }];
    execFileSync("mkfifo", [fifo]);
    // Blocks the program after bubblewrap has reported it, and fails a command that joins before it continues.
    const slow = join(base, "slow-bwrap");
    const block = `exec bwrap --userns-block-fd 8 --info-fd 9 "$@" 8<>'${fifo}' 9>/dev/null`;
    const script = `#!/bin/sh\n[ "$1" = --json-status-fd ] && ${block}\n[ -e '${released}' ] || { echo early >&2; exit 1; }\nexec bwrap "$@"\n`;
    writeFileSync(slow, script, { mode: 0o755 });
    const setTimer: Clock["setTimer"] = (...args) => {
      pauses.count += 1;
      return systemClock.setTimer(...args);
    };
    const clock: Clock = { ...systemClock, setTimer };
    const blocked = await createBubblewrapDriver({ dir: join(base, "blocked"), clock, random: Math.random, bwrap: slow });
    try {
      const program = await blocked.start({ id: "a", command: ["sleep", "600"] });
      const reported = async () =>
        /"child-pid": (\d+)/.exec(await content(join(base, "blocked", "a", "bwrap-status.json")))?.[1];
      await expect.poll(reported, { timeout: 30_000 }).toBeDefined();
      const output = program
        .exec({ command: ["/bin/sh", "-c", "id -u; touch /x"] })
        .then(({ stdout, stderr }) => Promise.all([text(stdout), stderr && text(stderr)]));
      const before = pauses.count;
      let hasJoined = false;
      void output.finally(() => (hasJoined = true)).catch(() => {});
      await expect.poll(() => hasJoined || pauses.count > before + 3, { timeout: 30_000 }).toBe(true);
      writeFileSync(released, "");
      const pid = await reported();
      for (const [name, id] of [
        ["uid_map", process.getuid?.()],
        ["setgroups", "deny"],
        ["gid_map", process.getgid?.()],
      ] as const)
        writeFileSync(`/proc/${pid}/${name}`, id === "deny" ? id : `${id} ${id} 1`);
      writeFileSync(fifo, "x");
      expect(await output).toEqual([`${process.getuid?.()}\n`, expect.stringMatching(/Read-only file system/)]);
    } finally {
      await Promise.all(blocked.list().map((each) => each.stop({ graceMs: 0 })));
      await blocked.close();
    }
  });

  test("runs from an unpacked image, which cannot be removed while it runs", async () => {
    await createBusyboxImage(join(base, "busybox.tar"));
    const images = await openUnpackedImages(join(base, "images"));
    const { root } = await images.import(join(base, "busybox.tar"), { name: "busybox" });
    const script = "cat /etc/motd; [ -e /etc/gone ] || echo gone; touch /bin/x; echo ready >ready; exec sleep 600";
    const program = await driver.start({ id: "a", command: ["/bin/sh", "-c", script], isolation: { root } });
    await content(join(base, "programs", "a", "work", "ready"));
    expect(readFileSync(program.logs.stdout, "utf8")).toBe("above\ngone\n");
    expect(readFileSync(program.logs.stderr, "utf8")).toMatch(/Read-only file system/);
    await expect(images.remove("busybox")).rejects.toMatchObject({ code: "InUse" });
    expect(images.find("busybox")).toBeDefined();
    await program.stop({ graceMs: 0 });
    expect(await images.remove("busybox")).toBe(true);
  });

  test("writes to its root if that is its own, and so do commands alongside it", async () => {
    await createBusyboxImage(join(base, "busybox.tar"));
    const images = await openUnpackedImages(join(base, "images"));
    const { root } = await images.import(join(base, "busybox.tar"), { name: "busybox" });
    symlinkSync("/../etc", join(root, "settings"));
    writeFileSync(join(base, "file"), "mounted\n");
    const binds = ["/new/place", "/settings/deep/er"].map((target) => ({ source: join(base, "file"), target }));
    const isolation = { root, isRootWritable: true, binds };
    const script = "cat /new/place /etc/deep/er; echo one >/bin/x; echo two >/x; echo ready >ready; exec sleep 600";
    const program = await driver.start({ id: "a", command: ["/bin/sh", "-c", script], isolation });
    await content(join(base, "programs", "a", "work", "ready"));
    expect(readFileSync(program.logs.stdout, "utf8")).toBe("mounted\nmounted\n");
    const beside = await program.exec({ command: ["/bin/sh", "-c", "cat /x /bin/x /new/place; echo three >>/x"] });
    expect(await text(beside.stdout)).toBe("two\none\nmounted\n");
    expect(readFileSync(join(root, "x"), "utf8")).toBe("two\nthree\n");
  });

  test.runIf(process.getuid?.() === 0)("sets kernel parameters in its own IPC namespace, for every user", async () => {
    const isolation = { ipcParameters: { "kernel/shm_rmid_forced": "1" } };
    chmodSync(base, 0o711);
    const script = "cat /proc/sys/kernel/shm_rmid_forced; id -u";
    const before = readFileSync("/proc/sys/kernel/shm_rmid_forced", "utf8");
    for (const [more, user] of [
      [{ isolation }, "0"],
      [{ isolation, user: "1234" }, "1234"],
      [{ isolation: { ...isolation, hasPrivateUser: true } }, "0"],
    ] as const) {
      expect(await output(script, more)).toBe(`1\n${user}\n`);
      await driver.get("a")?.remove();
    }
    expect(readFileSync("/proc/sys/kernel/shm_rmid_forced", "utf8")).toBe(before);
    const invalid = { ipcParameters: { "kernel/../vm/drop_caches": "1" } };
    await expect(driver.start({ id: "b", command: ["true"], isolation: invalid })).rejects.toThrow(
      "isolation.ipcParameters: must be",
    );
  });

  test("mounts at paths that its image lacks, and through the image's links", async () => {
    await createBusyboxImage(join(base, "busybox.tar"));
    const images = await openUnpackedImages(join(base, "images"));
    const { root } = await images.import(join(base, "busybox.tar"), { name: "busybox" });
    symlinkSync("/etc", join(root, "settings"));
    writeFileSync(join(base, "file"), "mounted\n");
    const binds = ["/etc/hosts", "/settings/deep/er", "/etc/motd"].map((target) => ({ source: join(base, "file"), target }));
    const seen = await output("cat /etc/hosts /etc/deep/er /etc/motd; cat /settings/passwd; touch /etc/x", {
      isolation: { root, binds },
    });
    expect(seen).toMatch(/^mounted\nmounted\nmounted\nroot:x:0[^]*Read-only file system/);
  });

  test("runs as a user of its image, with that user's home", async () => {
    await createBusyboxImage(join(base, "busybox.tar"));
    const images = await openUnpackedImages(join(base, "images"));
    const { root } = await images.import(join(base, "busybox.tar"), { name: "busybox" });
    for (const each of [base, join(base, "images")]) chmodSync(each, 0o711);
    writeFileSync(join(root, "etc", "passwd"), "worker:x:1234:1235::/home/worker:/bin/sh\n");
    const seen = await output("id -u; id -g; echo $HOME; echo x >own && cat own", { user: "worker", isolation: { root } });
    expect(seen).toBe("1234\n1235\n/home/worker\nx\n");
    await driver.get("a")?.remove();
    const program = await driver.start({ id: "a", command: ["true"], user: "nobody", isolation: { root } });
    expect(await program.exited()).toMatchObject({
      reason: "StartFailed",
      message: expect.stringMatching(/user nobody not found in its image/),
    });
  });

  test("finds its executable inside its image through absolute links", async () => {
    const root = join(base, "image");
    await output(`true`);
    await driver.get("a")?.remove();
    const { mkdirSync, symlinkSync, copyFileSync, cpSync } = await import("node:fs");
    for (const folder of ["bin", "lib64", "tmp", "proc", "dev", "run", "var/tmp", "real"])
      mkdirSync(join(root, folder), { recursive: true });
    copyFileSync("/bin/dash", join(root, "real", "dash"));
    symlinkSync("/real/dash", join(root, "bin", "sh"));
    cpSync("/lib/x86_64-linux-gnu/libc.so.6", join(root, "lib/x86_64-linux-gnu/libc.so.6"), { recursive: true });
    copyFileSync("/lib64/ld-linux-x86-64.so.2", join(root, "lib64", "ld-linux-x86-64.so.2"));
    const seen = await output("echo inside; [ -e /usr ] || echo no usr; pwd; echo x >y && echo own", { isolation: { root } });
    expect(seen).toBe("inside\nno usr\n/work\nown\n");
  });
});
