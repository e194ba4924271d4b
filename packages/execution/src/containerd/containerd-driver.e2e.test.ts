import { chmodSync, mkdirSync, mkdtempSync, readFileSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { systemClock } from "@keelson/api-machinery/time";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from "vitest";
import type { Program } from "../driver.ts";
import { cgroupViewRules } from "../contract/cgroup-view.ts";
import { driverContract } from "../contract/driver-contract.ts";
import { startLocalContainerd } from "../testing/local-containerd.ts";
import type { LocalContainerd } from "../testing/local-containerd.ts";
import { outsidePid } from "../testing/outside-pid.ts";
import { openProgramRoot } from "../program/program-root.ts";
import { findRunsc } from "./container-runtime.ts";
import { createContainerdDriver } from "./containerd-driver.ts";

let home: string;
let base: string;
let containerd: LocalContainerd;

beforeAll(async () => {
  home = realpathSync(mkdtempSync(join(tmpdir(), "ctrd-")));
  containerd = await startLocalContainerd(home);
});

afterAll(async () => {
  await containerd.stop();
  rmSync(home, { recursive: true, force: true });
});

beforeEach(() => {
  base = realpathSync(mkdtempSync(join(tmpdir(), "keelson-ctrd-")));
});

afterEach(() => {
  vi.unstubAllEnvs();
  rmSync(base, { recursive: true, force: true });
});

/** Puts a program into the PATH that takes runsc's options and is runc, unless runsc is installed. */
function provideRunsc(): "runsc" | "runc" {
  if (findRunsc() !== undefined) return "runsc";
  const bin = join(base, "bin");
  mkdirSync(bin);
  writeFileSync(join(bin, "runsc"), '#!/bin/sh\n[ "$1" = --network=host ] || exit 9\nshift\nexec runc "$@"\n', { mode: 0o755 });
  vi.stubEnv("PATH", `${bin}:${process.env.PATH}`);
  return "runc";
}

test("runs programs with runsc, which are signaled, paused and adopted as others", async () => {
  const kernel = provideRunsc();
  // The root of a program with a private user is an unprivileged user of the host.
  for (const folder of [home, base]) chmodSync(folder, 0o711);
  const options = { dir: join(base, "programs"), clock: systemClock, random: Math.random, socket: containerd.socket };
  const first = await createContainerdDriver(options);
  const isolation = { runtime: "runsc", network: "none", hasPrivateUser: true } as const;
  const script = "trap 'exit 5' TERM; uname -r; while :; do sleep 1; done";
  const command = ["/bin/sh", "-c", script] as const;
  const started = await first.start({ id: "a", command, isolation, limits: { memoryBytes: 1 << 29, diskBytes: 1 << 24 } });
  expect(started.state).toMatchObject({ kind: "running" });
  await expect.poll(() => readFileSync(started.logs.stdout, "utf8"), { timeout: 60_000 }).toMatch(/\n/);
  expect(readFileSync(started.logs.stdout, "utf8").includes("gvisor")).toBe(kernel === "runsc");
  await started.pause();
  expect(started.isPaused).toBe(true);
  await first.close();
  const second = await createContainerdDriver(options);
  const program = second.get("a");
  await program?.resume();
  const session = await program?.exec({ command: ["/bin/sh", "-c", "id -u; cat /proc/net/dev | grep -c lo:"], user: "12" });
  session?.stdin.end();
  expect(session && (await text(session.stdout))).toBe("12\n1\n");
  expect(program && openRoot(program)).toMatch(/gVisor/);
  expect(await program?.stop({ graceMs: 60_000 })).toMatchObject({ reason: "Stopped", exitCode: 5 });
  await program?.remove();
  await second.close();
});

/** Why the root of a program cannot be opened. */
function openRoot(program: Program): string {
  try {
    openProgramRoot(program);
    return "";
  } catch (error) {
    return String(error);
  }
}

describe("containerd driver", () => {
  test.each([...driverContract, ...cgroupViewRules({ "a program": {} })].map((rule) => [rule.title, rule] as const))(
    "%s",
    async (_, rule) => {
      const dir = join(base, "programs");
      const binds = [{ source: base, target: base, isWritable: true }];
      const options = { dir, clock: systemClock, random: Math.random, binds, socket: containerd.socket };
      const setup = {
        dir,
        open: () => createContainerdDriver(options),
        outsidePid: (id: string, pid: number) => outsidePid(dir, id, pid),
      };
      await expect(rule.run(setup)).resolves.toBeUndefined();
    },
  );
});
