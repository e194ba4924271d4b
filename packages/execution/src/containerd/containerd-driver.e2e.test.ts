import { mkdtempSync, realpathSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { systemClock } from "@keelson/api-machinery/time";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { cgroupViewRules } from "../contract/cgroup-view.ts";
import { driverContract } from "../contract/driver-contract.ts";
import { startLocalContainerd } from "../testing/local-containerd.ts";
import type { LocalContainerd } from "../testing/local-containerd.ts";
import { outsidePid } from "../testing/outside-pid.ts";
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
  rmSync(base, { recursive: true, force: true });
});

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
