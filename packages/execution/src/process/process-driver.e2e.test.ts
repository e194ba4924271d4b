import { mkdtempSync, realpathSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { systemClock } from "@keelson/api-machinery/time";
import { driverContract } from "../contract/driver-contract.ts";
import { createProcessDriver } from "./process-driver.ts";

let base: string;

beforeEach(() => {
  base = realpathSync(mkdtempSync(join(tmpdir(), "keelson-driver-")));
});

afterEach(() => {
  rmSync(base, { recursive: true, force: true });
});

// Not every machine lets a supervisor create cgroups; the contract holds either way.
for (const [cgroups, cgroupParent] of [
  ["with", undefined],
  ["without", false],
] as const) {
  describe(`process driver ${cgroups} cgroups`, () => {
    test.each(driverContract.map((rule) => [rule.title, rule] as const))("%s", async (_, rule) => {
      const dir = join(base, "programs");
      const options = { dir, clock: systemClock, random: Math.random, ...(cgroupParent === false && { cgroupParent }) };
      await expect(rule.run({ dir, open: () => createProcessDriver(options) })).resolves.toBeUndefined();
    });
  });
}
