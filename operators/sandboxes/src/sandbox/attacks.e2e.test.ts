import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import {
  chmodSync,
  copyFileSync,
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { createServer, type AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { quantityToBytes } from "@keelson/api-machinery/quantity";
import { systemClock } from "@keelson/api-machinery/time";
import { silentLogger } from "@keelson/controller";
import { type Driver, type ExecSpec, openUnpackedImages, type Program } from "@keelson/execution";
import { createBusyboxImage, type LocalContainerd, startLocalContainerd, whenWarm } from "@keelson/execution/testing";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { openAgentDriver } from "../agent/run-agent.ts";
import { FolderWatches } from "../files/folder-watches.ts";
import { watchProcessName } from "../files/watch-program.ts";
import type { AgentSandbox } from "../protocol/protocol.ts";
import { dangerousCallsProgram, traceProgram } from "../testing/system-call-attack.ts";
import { localImages } from "./image-store.ts";
import { SandboxManager } from "./sandbox-manager.ts";

/* Each test is an attack from inside a sandbox as an agent starts it by default. One row of SECURITY.md each. */

const isRoot = process.getuid?.() === 0;
const maxProcesses = 48;
/** See `hasStub` of packages/execution. */
const hasImageSlots = process.arch === "x64";
const [one, other] = ["1".repeat(32), "2".repeat(32)];
let dir: string;
let imageRoot: string;
let containerd: LocalContainerd | undefined;
let driver: Driver;
let manager: SandboxManager;
let expectedStart: "cold" | "image" = "cold";
const victims: ChildProcess[] = [];

/** A process of the host for a sandbox to attack. */
function startVictim(env: Readonly<Record<string, string>> = {}): number {
  const victim = spawn("sleep", ["600"], { env: { ...process.env, ...env } });
  victims.push(victim);
  return victim.pid ?? 0;
}

async function create(sandboxId: string, change: Partial<AgentSandbox>): Promise<Program> {
  const claim = { claimUid: "", claimName: "one", namespace: "default" };
  if (expectedStart === "image") await whenWarm(driver);
  const answer = await manager.create({ sandboxId, ...claim, image: "host", ...change });
  // Another disk limit than that of the slots.
  const start = change.memory !== undefined && quantityToBytes(change.memory) > 512 << 20 ? "cold" : expectedStart;
  expect(answer).toMatchObject({ success: true, start });
  const program = driver.get(sandboxId);
  if (program === undefined) throw new Error("the sandbox does not exist");
  return program;
}

/** What a command in a sandbox prints until it exits. */
async function attack(command: string[], change: Partial<AgentSandbox> = {}): Promise<string> {
  const program = await create(one, { command, ...change });
  await program.exited();
  return readFileSync(program.logs.stdout, "utf8");
}

const shell = (script: string): Promise<string> => attack(["bash", "-c", script]);
const perl = (source: string): Promise<string> => attack(["perl", "-e", source]);

/** What a command alongside a sandbox's program prints. */
const exec = (program: Program, ...command: [string, ...string[]]): Promise<string> => execAs(program, { command });

async function execAs(program: Program, spec: ExecSpec): Promise<string> {
  const session = await program.exec(spec);
  session.stdin.end();
  return text(session.stdout);
}

/** Waits until a file contains `part`. */
async function output(path: string, part: string): Promise<void> {
  while (!readFileSync(path, "utf8").includes(part)) await new Promise((resolve) => setTimeout(resolve, 10));
}

const hostIdsOf = (pid: number): readonly number[] =>
  (/^Uid:\s+(.*)$/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1] ?? "").split(/\s+/).map(Number);

/** Pids of the host whose command line starts with `start`: not those of their starters. */
function findProcesses(start: string): readonly number[] {
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name) && Number(name) !== process.pid)
    .filter((name) => {
      try {
        return readFileSync(`/proc/${name}/cmdline`, "utf8").startsWith(start);
      } catch {
        return false;
      }
    })
    .map(Number);
}

/** Whether a process of the host has started a command of a sandbox, and waits for it. */
function isStarter(pid: string): boolean {
  try {
    return /bwrap\0.*sleep 618\0$/.test(readFileSync(`/proc/${pid}/cmdline`, "latin1"));
  } catch {
    return false;
  }
}

/** Waits until a process is found. */
async function processOf(start: string): Promise<number> {
  for (;;) {
    const [pid] = findProcesses(start);
    if (pid !== undefined) return pid;
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

/** A sandbox that starts cold with a driver, or with bubblewrap in a slot that was prepared for its image. */
const kinds = hasImageSlots ? (["bubblewrap", "containerd", "warm"] as const) : (["bubblewrap", "containerd"] as const);

async function open(kind: (typeof kinds)[number]): Promise<void> {
  const name = kind === "warm" ? "bubblewrap" : kind;
  expectedStart = kind === "warm" ? "image" : "cold";
  dir = realpathSync(mkdtempSync(join(tmpdir(), "attack-")));
  chmodSync(dir, 0o711);
  if (name === "containerd") containerd = await startLocalContainerd(join(dir, "containerd"));
  const isolation = { driver: name, ...(containerd !== undefined && { containerdSocket: containerd.socket }) };
  driver = await openAgentDriver(isolation, join(dir, "agent"), systemClock);
  const images = await openUnpackedImages(join(dir, "images"));
  await createBusyboxImage(join(dir, "busybox.tar"));
  await images.import(join(dir, "busybox.tar"), { name: "busybox" });
  const store = localImages(images);
  imageRoot = store.find("busybox")?.root ?? "";
  manager = new SandboxManager({
    agentId: "agent",
    nodeName: "node",
    capacity: 4,
    driver,
    images: store,
    address: "127.0.0.1",
    clock: systemClock,
    log: silentLogger,
    expiryFile: join(dir, "expiries.json"),
    maxProcesses,
    ...(kind === "warm" && { warm: { shells: 0, perImage: 1, imageDir: join(dir, "images") } }),
  });
}

afterEach(async () => {
  for (const victim of victims.splice(0)) victim.kill("SIGKILL");
  await manager.shutDown();
  await Promise.all(driver.list().map((program) => program.remove()));
  await driver.close();
  await containerd?.stop();
  containerd = undefined;
  rmSync(dir, { recursive: true, force: true });
});

describe.runIf(isRoot).each(kinds)("code in a sandbox (%s)", (name) => {
  beforeEach(() => open(name));

  it("runs as host ids of its own, which differ from those of every other sandbox", async () => {
    const programs = [await create(one, { command: ["sleep", "611.1"] }), await create(other, { command: ["sleep", "611.2"] })];
    const ids = [hostIdsOf(await processOf("sleep\x00611.1")), hostIdsOf(await processOf("sleep\x00611.2"))];
    for (const each of ids) {
      expect(new Set(each).size).toBe(1);
      expect(each[0]).toBeGreaterThan(1_879_000_000);
    }
    expect(ids[0]?.[0]).not.toBe(ids[1]?.[0]);
    expect(programs.map(({ limits }) => limits)).toEqual(programs.map(({ spec }) => ({ applied: spec.limits })));
  });

  it("cannot trace, read or signal processes of the host or of another sandbox", async () => {
    const neighbour = await create(other, { command: ["sleep", "612"] });
    const pids = [startVictim(), process.pid, await processOf("sleep\x00612")];
    expect(await perl(traceProgram(pids))).toBe("done\n");
    expect(await exec(neighbour, "echo", "alive")).toBe("alive\n");
    for (const pid of pids) expect(readFileSync(`/proc/${pid}/status`, "utf8")).toMatch(/^TracerPid:\s+0$/m);
  });

  it("gains nothing from a set-uid program of root", async () => {
    const program = join(imageRoot, "bin", "sleep");
    rmSync(program);
    copyFileSync("/bin/busybox", program);
    chmodSync(program, 0o4755);
    await create(one, { image: "busybox", command: ["/bin/sleep", "613"] });
    const pid = await processOf("/bin/sleep\x00613");
    expect(readFileSync(`/proc/${pid}/status`, "utf8")).toMatch(/^NoNewPrivs:\s+1$/m);
    for (const id of hostIdsOf(pid)) expect(id).toBeGreaterThan(1_879_000_000);
  });

  it("cannot make the system calls that attack the kernel", async () => {
    expect(await perl(dangerousCallsProgram())).toBe("done\n");
  });

  it("cannot take the terminals of the machine", async () => {
    const open = 'while (@all < 500 && open my $each, "+<", "/dev/ptmx") { push @all, $each; } print scalar @all;';
    expect(await perl(open)).toBe("64");
  });

  it("stops at its process limit with a fork bomb, which harms no neighbour and ends with the sandbox", async () => {
    const neighbour = await create(other, { command: ["sleep", "614"] });
    // The first process survives the failures of its children.
    const bomb = 'perl -e \'$0 = "keelson-bomb"; print "x"; while (1) { fork; }\'';
    const program = await create(one, { command: ["bash", "-c", `${bomb} & while :; do sleep 600; done`] });
    const limit = program.limits.applied.pids;
    expect(limit).toBe(maxProcesses);
    while ((await program.stats()).pids < maxProcesses - 2) await new Promise((resolve) => setTimeout(resolve, 10));
    expect(await exec(neighbour, "echo", "alive")).toBe("alive\n");
    expect((await program.stats()).pids).toBeLessThanOrEqual(maxProcesses);
    await manager.delete(one);
    expect(findProcesses("keelson-bomb")).toEqual([]);
  });

  it("is killed by its memory limit, wherever it puts the memory", async () => {
    const scripts = [
      "head -c 200000000 /dev/zero | tail -c 200000000 >/dev/null",
      "for folder in /dev/shm /tmp /work; do head -c 200000000 /dev/zero >$folder/bomb; done",
    ];
    for (const [index, script] of scripts.entries()) {
      const program = await create(`${index}`.repeat(32), { command: ["bash", "-c", script], memory: "48Mi" });
      expect((await program.exited()).exitCode).not.toBe(0);
    }
    const neighbour = await create(other, { command: ["sleep", "615"], memory: "48Mi" });
    expect(await exec(neighbour, "echo", "alive")).toBe("alive\n");
  });

  it("cannot keep more than its memory in the queues of sockets", async () => {
    const send = 'for (1..4) { send($sender, "x" x 50000, 0, getsockname($socket)); }';
    const open = `socket(my $socket, AF_INET, SOCK_DGRAM, 0); bind($socket, sockaddr_in(0, INADDR_LOOPBACK)); push @all, $socket; ${send}`;
    const count = "for (@all) { while (defined recv($_, my $part, 65536, MSG_DONTWAIT)) { $total += length $part; } }";
    const flood = `use Socket; socket(my $sender, AF_INET, SOCK_DGRAM, 0); for (1..700) { ${open} } ${count} print $total;`;
    const output = await attack(["perl", "-e", flood], { memory: "48Mi" });
    expect(Number(output)).toBeGreaterThan(0);
    expect(Number(output)).toBeLessThan(48 << 20);
  });

  it("cannot fill the disk: its folders have a size and a number of files, and nothing else can be written", async () => {
    const write = (path: string): string =>
      `head -c 100000000 /dev/zero >${path} 2>/dev/null; stat -c %s ${path} 2>/dev/null || echo none`;
    const paths = ["/work/bomb", "/bomb", "/etc/bomb", "/usr/bomb", "/var/bomb", "/var/tmp/bomb", "/run/bomb", "/dev/bomb"];
    const files =
      "i=0; while [ $i -lt 66000 ] && : >/tmp/$i; do i=$((i + 1)); done 2>/dev/null; [ $i -lt 65537 ] && echo limited";
    const program = await create(one, { command: ["bash", "-c", `${paths.map(write).join("; ")}; ${files}`], memory: "1Gi" });
    await program.exited();
    expect(program.limits.applied.diskBytes).toBe(1 << 30);
    expect(readFileSync(program.logs.stdout, "utf8")).toBe(`100000000\n${"none\n".repeat(paths.length - 1)}limited\n`);
  });

  it("cannot fill the machine's disk through its log, which it can extend without writing", async () => {
    const [fallocate, truncate] = process.arch === "arm64" ? [47, 46] : [285, 77];
    const extend = `for my $call (${fallocate}, ${truncate}) { my @a = $call == ${fallocate} ? (1, 0, 0, 4 << 30) : (1, 4 << 30); print STDERR syscall($call, @a), "\\n"; }`;
    const program = await create(one, { command: ["perl", "-e", `$SIG{XFSZ} = "IGNORE"; ${extend}`] });
    await program.exited();
    expect(readFileSync(program.logs.stderr, "utf8")).toBe("-1\n-1\n");
  });

  it("leads no command to the machine's processes with a working directory, and leaves it no descriptor of the machine", async () => {
    const program = await create(one, { command: ["sleep", "616"] });
    const list = 'ls -d [0-9]* 2>/dev/null | wc -l; for fd in /proc/self/fd/*; do readlink "$fd"; done | grep -c cgroup';
    for (let fd = 3; fd < 12; fd += 1) {
      const session = await program.exec({ command: ["bash", "-c", list], cwd: `/proc/self/fd/${fd}` }).catch(() => undefined);
      session?.stdin.end();
      const [processes = "0", groups = "0"] = session === undefined ? [] : (await text(session.stdout)).split("\n");
      // Its own: bubblewrap, the shell and its commands.
      expect(Number(processes)).toBeLessThan(12);
      expect(Number(groups)).toBe(0);
    }
  });

  // With containerd, nothing on the machine waits for a command.
  it.each(name === "containerd" ? [] : [name])(
    "leads no command to the machine's files through the processes that started other commands",
    async () => {
      const program = await create(one, { command: ["sh", "-c", "ln -s /proc/self/fd machine; exec sleep 617"] });
      const marker = join(dir, "marker");
      writeFileSync(marker, "found\n", { mode: 0o644 });
      for (const user of [undefined, "1000"]) {
        const as = user === undefined ? {} : { user };
        const session = await program.exec({ ...as, command: ["sh", "-c", "echo up; exec sleep 618"] });
        await once(session.stdout, "data");
        // What started it, and stays on the machine: their command lines end with its own.
        const starters = readdirSync("/proc").filter((pid) => /^\d+$/.test(pid) && isStarter(pid));
        expect(starters.length).toBeGreaterThan(0);
        for (const pid of starters) {
          for (const fd of [3, 4, 5]) {
            const cwd = `/work/machine/${fd}/${pid}/root${dir}`;
            const seen = await execAs(program, { ...as, command: ["cat", "marker"], cwd }).catch(() => "");
            expect(seen, cwd).toBe("");
          }
        }
        await session.kill();
      }
    },
  );

  it("runs commands as users of its own, whose files and processes are apart", async () => {
    const program = await create(one, { command: ["sh", "-c", "umask 077; echo secret >mine; exec sleep 619"] });
    const script = `id -u; id -g; id -G; touch /tmp/theirs; cat mine; kill -9 1; cat /proc/1/environ; chown 0 /tmp/theirs; exec sleep 620`;
    const session = await program.exec({ command: ["sh", "-c", script], user: "1000:50" });
    const output = text(session.stdout);
    const pid = await processOf("sleep\x00620");
    const status = readFileSync(`/proc/${pid}/status`, "utf8");
    const ownId = hostIdsOf(await processOf("sleep\x00619"))[0] ?? 0;
    expect(new Set(hostIdsOf(pid)).size).toBe(1);
    expect(hostIdsOf(pid)[0]).toBeGreaterThan(1_879_000_000);
    expect(hostIdsOf(pid)[0]).not.toBe(ownId);
    expect(Number(/^Gid:\s+(\d+)/m.exec(status)?.[1])).toBeGreaterThan(1_879_000_000);
    expect(status).toMatch(/^CapEff:\s+0+$/m);
    expect(status).toMatch(/^NoNewPrivs:\s+1$/m);
    expect(status).toMatch(/^Seccomp:\s+2$/m);
    expect(await exec(program, "stat", "-c", "%u", "/tmp/theirs")).toBe(name === "containerd" ? "1000\n" : "65534\n");
    await session.kill();
    expect(await output).toBe("1000\n50\n50\n");
    expect(await execAs(program, { command: ["sh", "-c", "id -u; cat mine"], user: "root" })).toBe("0\nsecret\n");
  });

  it("gains no other user: neither by its ids, its groups nor a set-uid program", async () => {
    const program = await create(one, { command: ["sleep", "621"] });
    const victims = [startVictim(), process.pid, await processOf("sleep\x00621")];
    const become = `use POSIX; for (0, 1, 2147483646) { setuid($_) && print "uid $_\\n"; setgid($_) && print "gid $_\\n"; $) = "$_ $_" }
      print join(",", $<, $>, $(, $)), "\\n"`;
    const ids = await execAs(program, { command: ["perl", "-e", become], user: "1000" });
    expect(ids).toMatch(/^1000,1000(?:,1000(?: 1000)*){2}\n$/);
    expect(await execAs(program, { command: ["perl", "-e", traceProgram(victims)], user: "1000" })).toBe("done\n");
    for (const pid of victims) expect(readFileSync(`/proc/${pid}/status`, "utf8")).toMatch(/^TracerPid:\s+0$/m);
    await expect(program.exec({ command: ["id"], user: "nobody-of-this-name" })).rejects.toMatchObject({ code: "InvalidSpec" });
  });

  it("keeps no memory when it has ended, and can be removed, even if its folders are nested deeper than a path can be long", async () => {
    const deep = 'chdir "/work"; for (1..1000) { mkdir "folder"; chdir "folder" or die }';
    const program = await create(one, { command: ["perl", "-e", deep] });
    await program.exited();
    expect(readFileSync("/proc/self/mountinfo", "utf8")).not.toContain(join(dir, "agent", "programs", one));
    await manager.delete(one);
    expect(existsSync(join(dir, "agent", "programs", one))).toBe(false);
    expect(readdirSync(join(dir, "agent", "programs", ".trash"))).toEqual([]);
  });

  it("reaches no abstract socket of the host or of another sandbox", async () => {
    const server = createServer((socket) => socket.on("error", () => {}).end("reached")).listen("\0keelson-attack");
    await once(server, "listening");
    try {
      const listen =
        'use Socket; socket(S, AF_UNIX, SOCK_STREAM, 0); bind(S, pack_sockaddr_un("\\0keelson-other")) && listen(S, 5) or die; $| = 1; print "up\\n"; accept(C, S)';
      const neighbour = await create(other, { command: ["perl", "-e", listen] });
      await output(neighbour.logs.stdout, "up");
      const reach =
        'use Socket; for ("keelson-attack", "keelson-other") { socket(S, AF_UNIX, SOCK_STREAM, 0); print connect(S, pack_sockaddr_un("\\0$_")) ? "reached\\n" : "refused\\n" }';
      expect(await perl(reach)).toBe("refused\nrefused\n");
    } finally {
      server.close();
    }
  });

  it("reaches no listener of the host and occupies none of its ports", async () => {
    const server = createServer((socket) => socket.on("error", () => {}).end("reached")).listen(0, "127.0.0.1");
    await once(server, "listening");
    const { port } = server.address() as AddressInfo;
    try {
      const out = await shell(
        `cat </dev/tcp/127.0.0.1/${port} || echo refused; cat /proc/net/dev | tail -n +3 | cut -d: -f1 | tr -d " "`,
      );
      expect(out).toBe("refused\nlo\n");
      await manager.delete(one);
    } finally {
      await new Promise((resolve) => server.close(resolve));
    }
    const squat = `use Socket; socket(S, AF_INET, SOCK_STREAM, 0); bind(S, sockaddr_in(${port}, INADDR_ANY)) && listen(S, 5) or die; $| = 1; print "up\\n"; accept(C, S)`;
    const squatter = await create(other, { command: ["perl", "-e", squat] });
    await output(squatter.logs.stdout, "up");
    const agent = createServer().listen(port, "127.0.0.1");
    await once(agent, "listening");
    await new Promise((resolve) => agent.close(resolve));
  });

  it("finds no token or key: in files, environments or sockets of the host", async () => {
    startVictim({ KEELSON_ATTACK_TOKEN: "stolen" });
    mkdirSync(join(dir, "keys"));
    writeFileSync(join(dir, "keys", "agent.key"), "stolen", { mode: 0o644 });
    const paths = [
      join(dir, "keys"),
      dir,
      join(dir, "agent"),
      "/run/containerd",
      "/etc/shadow",
      "/etc/ssl/private",
      "/root",
      "/home",
      "/opt",
      "/var/lib",
    ];
    const script = `cat /proc/*/environ 2>/dev/null | grep -c KEELSON_ATTACK_TOKEN=stolen; for path in ${paths.join(" ")}; do ls -A $path; cat $path; done 2>/dev/null; ls -A /proc/1/root/root /proc/1/cwd/../root 2>/dev/null; true`;
    expect(await shell(script)).toBe("0\n");
  });

  it("cannot change the kernel's settings, and sees nothing of the machine in /sys", async () => {
    const paths = [
      "/proc/sys/kernel/core_pattern",
      "/proc/sys/kernel/hostname",
      "/proc/sys/vm/overcommit_memory",
      "/proc/sysrq-trigger",
      "/proc/1/uid_map",
    ];
    const script = `for path in ${paths.join(" ")}; do echo x >$path && echo wrote $path; done 2>/dev/null; head -c 1 /proc/kcore 2>/dev/null | wc -c; grep -c . /proc/keys 2>/dev/null || true; ls -A /sys 2>/dev/null | wc -l`;
    const lines = (await shell(script)).trim().split("\n");
    expect(lines.filter((line) => line !== "0")).toEqual([]);
  });

  it("cannot lead out of its folders with links: the kept files are links, and the host's are unchanged", async () => {
    const secret = join(dir, "secret");
    writeFileSync(secret, "secret");
    const script = `ln -s ${secret} /work/link; ln -s ${dir} /work/folder; ln -s / /tmp/root; echo changed >/work/link; cat /work/link /work/folder/secret; ln -s /etc/shadow /work/shadow`;
    await shell(`${script} 2>/dev/null; true`);
    const work = join(dir, "agent", "programs", one, "work");
    // With containerd, the files end with the container.
    const links = name === "containerd" ? [] : ["folder", "link", "shadow"];
    expect(readdirSync(work).sort()).toEqual(links);
    for (const link of links) expect(lstatSync(join(work, link)).isSymbolicLink()).toBe(true);
    expect(readFileSync(secret, "utf8")).toBe("secret");
    await manager.delete(one);
    expect(existsSync(secret)).toBe(true);
  });

  it("cannot lead a watch of its folders out of them, and shows it only what its user may read", async () => {
    const swap = `cd /work; mkdir tree shut; chmod 000 shut; ln -s ${dir} link; ln -s /proc/1/root root; echo ready; while :; do mkdir tree/a; mv tree/a tree/b; ln -s ${dir} tree/a; rm tree/a; rmdir tree/b; done`;
    const program = await create(one, { command: ["bash", "-c", swap] });
    await output(program.logs.stdout, "ready");
    chmodSync(dir, 0o755);
    const watches = new FolderWatches(systemClock);
    const codeOf = (path: string) =>
      watches.open(program, { path, isRecursive: true }).then(
        () => "opened",
        (error: { code: string }) => error.code,
      );
    for (const path of ["link", "root", "shut", "../../../root", "/proc/self/fd/3", dir])
      expect(["NotFound", "Denied", "Conflict"]).toContain(await codeOf(path));
    const watch = await watches.open(program, { path: ".", isRecursive: true });
    let seen = 0;
    for await (const { changes } of watch.reports) {
      writeFileSync(join(dir, "secret"), "secret");
      expect(changes.filter(({ path }) => path.includes("secret") || path.includes("agent"))).toEqual([]);
      seen += changes.length;
      if (seen > 500) break;
    }
    await manager.delete(one);
    // Other tests have watches too.
    const children = (): string => readFileSync(`/proc/self/task/${process.pid}/children`, "latin1");
    while (findProcesses(watchProcessName).some((pid) => children().split(" ").includes(String(pid))))
      await new Promise((resolve) => setTimeout(resolve, 10));
  });
});
