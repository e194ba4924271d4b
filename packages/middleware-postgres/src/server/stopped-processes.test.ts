import { createVirtualClock } from "@keelson/api-machinery/testing";
import { expect, it } from "vitest";
import { StoppedProcesses } from "./stopped-processes.ts";

function create() {
  const clock = createVirtualClock();
  const states = new Map([
    [1, "S"],
    [2, "S"],
  ]);
  let ends = 0;
  const processes = new StoppedProcesses({
    clock,
    log: { error: () => undefined },
    stateOf: (pid) => Promise.resolve(states.get(pid)),
    end: () => (ends += 1),
  });
  return { clock, states, processes, ends: () => ends };
}

it("ends a server of which a process stays stopped", async () => {
  const { clock, states, processes, ends } = create();
  states.set(2, "T");
  expect(await processes.check([1, 2])).toBe(false);
  await clock.advance(1_400);
  expect(await processes.check([1, 2])).toBe(false);
  await clock.advance(200);
  expect(await processes.check([1, 2])).toBe(true);
  expect(ends()).toBe(1);
});

it("keeps a server whose processes are stopped for a moment only, or end", async () => {
  const { clock, states, processes, ends } = create();
  for (const state of ["T", "S", "T", "R"]) {
    states.set(1, state);
    await processes.check([1, 2]);
    await clock.advance(1_000);
  }
  states.set(1, "T");
  await processes.check([1, 2]);
  await clock.advance(5_000);
  await processes.check([2]);
  expect(await processes.check([1, 2])).toBe(false);
  expect(ends()).toBe(0);
});
