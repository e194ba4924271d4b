import { mkdtempSync, readFileSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { systemClock } from "@keelson/api-machinery";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { createBubblewrapDriver } from "./bubblewrap-driver.ts";
import { driverContract } from "./driver-contract.ts";
import type { Driver, ProgramSpec } from "./driver.ts";
import { readdirSync } from "node:fs";
import { programFolder } from "./program-folder.ts";

let base: string;

beforeEach(() => {
  base = realpathSync(mkdtempSync(join(tmpdir(), "keelson-bwrap-")));
});

afterEach(() => {
  rmSync(base, { recursive: true, force: true });
});

/** Finds a process of this machine by the number that it has in its own process namespace, among those of one program. */
function outsidePid(dir: string, id: string, pid: number): number {
  const { tag } = programFolder(dir, id);
  for (const name of readdirSync("/proc").filter((each) => /^\d+$/.test(each))) {
    try {
      const inside = /^NSpid:\s+\d+\s+(\d+)$/m.exec(readFileSync(`/proc/${name}/status`, "latin1"))?.[1];
      const group = readFileSync(`/proc/${name}/cgroup`, "latin1").includes(tag);
      const tagged = group || readFileSync(`/proc/${name}/environ`, "latin1").includes(tag);
      if (Number(inside) === pid && tagged) return Number(name);
    } catch {
      // Ended meanwhile.
    }
  }
  return -1;
}

for (const [cgroups, cgroupRoot] of [
  ["with", undefined],
  ["without", false],
] as const) {
  describe(`bubblewrap driver ${cgroups} cgroups`, () => {
    test.each(driverContract.map((rule) => [rule.title, rule] as const))("%s", async (_, rule) => {
      const dir = join(base, "programs");
      const binds = [{ source: base, target: base, isWritable: true }];
      const options = { dir, clock: systemClock, random: Math.random, binds, ...(cgroupRoot === false && { cgroupRoot }) };
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

  test("sees its own processes only, has no capability and cannot get any", async () => {
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

  test("cannot write outside of what is its own, nor read the machine's folders or passwords", async () => {
    writeFileSync(join(base, "secret"), "secret");
    const seen = await output(
      `for path in /usr/x /etc/x /x; do touch $path 2>/dev/null && echo "wrote $path"; done
       cat ${join(base, "secret")} /root/.profile /etc/shadow 2>/dev/null; ls -A /tmp | grep -v keelson-bwrap; touch /tmp/x /run/x x && echo own`,
    );
    expect(seen).toBe("own\n");
  });

  test("with an environment that acts on loaders leaves what starts it alone", async () => {
    const seen = await output("echo $LD_PRELOAD $PATH", { env: { LD_PRELOAD: "/nowhere.so", PATH: "/usr/bin:/bin" } });
    // The shell inside complains; neither the shim's shell nor bwrap has anything to complain about.
    expect(seen.match(/ERROR: ld.so/g)).toHaveLength(1);
    expect(seen).toContain("/nowhere.so /usr/bin:/bin");
  });

  test("with network none reaches nothing but its own loopback", async () => {
    const shared = await output("ls /sys/class/net 2>/dev/null; cat /proc/net/dev | wc -l");
    await driver.get("a")?.remove();
    const none = await output("tail -n +3 /proc/net/dev | cut -d: -f1", { isolation: { network: "none" } });
    expect(none.trim()).toBe("lo");
    expect(shared).not.toBe("");
  });

  test("finds its program inside its image, along links that are absolute there", async () => {
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
