import { expect, it } from "vitest";
import { Model } from "../testing/lease-model.ts";
import { type ModelOptions, runUntil } from "../testing/lease-model-parts.ts";

/** Thousands of simulated minutes: slow on a busy machine. */
const slow = { timeout: 180_000 };

/** Runs seeded random schedules. Returns the number of failovers, so that a test cannot pass because nothing happened. */
function explore(runs: number, options: Omit<ModelOptions, "seed">, violations = /./): number {
  let elections = 0;
  for (let seed = 1; seed <= runs; seed++) {
    const model = new Model({ ...options, seed });
    for (let step = 0; step < 1_200; step++) {
      model.step();
      if (model.violation === undefined || !violations.test(model.violation)) continue;
      expect.fail(`seed ${seed}, step ${step}: ${model.violation}\n${model.history.slice(-40).join("\n")}`);
    }
    elections += model.elections;
  }
  return elections;
}

it.each([3, 4, 5])(
  "with %i members never has two writable primaries, nor loses reported writes, under loss, partitions, crashes, freezes and clock skew",
  slow,
  (size) => {
    expect(explore(60, { size })).toBeGreaterThan(100);
  },
);

it.each([3, 5])("with %i members never has two writable primaries if volumes are lost too", slow, (size) => {
  expect(explore(40, { size, losesVolumes: true }, /two writable primaries/)).toBeGreaterThan(50);
});

it.each([3, 4, 5])(
  "a connected majority of %i members with data has a primary within 10 s, whatever happened since the quorum was formed",
  slow,
  (size) => {
    let elections = 0;
    for (let seed = 1; seed <= 100; seed++) {
      const model = new Model({ seed, size });
      runUntil(model, () => model.isFormed, 20_000);
      // From faults that last for moments to those that last for half a minute.
      runUntil(model, () => false, (seed % 20) ** 2 * 80);
      const before = model.elections;
      if (!model.isFormed || !model.settle()) continue;
      const tookMs = runUntil(model, () => model.hasSettledPrimary, 20_000);
      expect(tookMs, `seed ${seed}\n${model.history.slice(-40).join("\n")}`).toBeLessThan(10_000);
      elections += model.elections - before;
    }
    expect(elections).toBeGreaterThan(30);
  },
);

it("finds two writable primaries if granters forget their lease early", slow, () => {
  expect(() => explore(200, { size: 3, flaw: "short-grants" })).toThrow(/two writable primaries/);
});

it("finds two writable primaries if a restarted agent is not quiet", slow, () => {
  expect(() => explore(400, { size: 3, flaw: "no-quiet-time" })).toThrow(/two writable primaries/);
});

it("finds two writable primaries if the first lease does not count before agents grant it", slow, () => {
  expect(() => explore(400, { size: 3, flaw: "late-count" })).toThrow(/two writable primaries/);
});

it("finds lost writes if candidates without the data are elected", slow, () => {
  expect(() => explore(400, { size: 3, flaw: "any-candidate" })).toThrow(/lost writes/);
});

it("elects a new primary within 10 s of a freeze, and immediately after a kill, while a majority is connected", slow, () => {
  for (let seed = 1; seed <= 50; seed++) {
    for (const fault of ["freeze", "kill"] as const) {
      const model = new Model({ seed, size: 3, isQuiet: true });
      runUntil(model, () => false, 20_000);
      const old = model.writable();
      model.fail(old ?? "", fault);
      const tookMs = runUntil(model, () => model.writable() !== undefined && model.writable() !== old, 10_000);
      expect(tookMs, `${fault}, seed ${seed}\n${model.history.slice(-40).join("\n")}`).toBeLessThan(
        fault === "freeze" ? 10_000 : 3_000,
      );
    }
  }
});
