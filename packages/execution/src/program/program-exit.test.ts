import { expect, test } from "vitest";
import { decideExit } from "./program-exit.ts";
import type { ExitContext } from "./program-exit.ts";

const context: ExitContext = { killed: false, killSignal: "SIGTERM", startedAt: 1, finishedAt: 2 };
const ended = (exitCode: number, oomKilled = false) => ({ kind: "exited" as const, exitCode, oomKilled });

test.each([
  ["code 0 is Completed", decideExit(ended(0), context), { reason: "Completed", exitCode: 0 }],
  ["another code is an Error", decideExit(ended(3), context), { reason: "Error", exitCode: 3 }],
  ["137 with a kill by the kernel is OOMKilled", decideExit(ended(137, true), context), { reason: "OOMKilled", exitCode: 137 }],
  [
    "a stop is Stopped with the program's own code",
    decideExit(ended(0), { ...context, stop: "Stopped" }),
    { reason: "Stopped", exitCode: 0 },
  ],
  [
    "a stop wins over the kernel's kill",
    decideExit(ended(137, true), { ...context, stop: "Stopped", killed: true }),
    { reason: "Stopped" },
  ],
  [
    "a timeout is 143",
    decideExit(ended(143), { ...context, stop: "Timeout" }),
    { reason: "Timeout", exitCode: 143, signal: 15 },
  ],
  [
    "a timeout that came to SIGKILL is 137",
    decideExit(ended(137), { ...context, stop: "Timeout", killed: true }),
    { reason: "Timeout", exitCode: 137 },
  ],
  [
    "a timeout is 143 also when the program chose a code",
    decideExit(ended(0), { ...context, stop: "Timeout" }),
    { reason: "Timeout", exitCode: 143 },
  ],
  [
    "a timeout that comes while the program's surroundings are made is a Timeout all the same",
    decideExit({ kind: "start-failed", exitCode: 126, message: "m" }, { ...context, stop: "Timeout", timeoutMs: 80 }),
    { reason: "Timeout", exitCode: 143, signal: 15, message: "The program reached its time limit of 80 ms before it ran: m" },
  ],
  [
    "so is a stop",
    decideExit({ kind: "start-failed", exitCode: 126, message: "m" }, { ...context, stop: "Stopped", killed: true }),
    { reason: "Stopped", exitCode: 137 },
  ],
  [
    "what nobody saw is Lost",
    decideExit({ kind: "lost", message: "m" }, context),
    { reason: "Lost", exitCode: -1, message: "m" },
  ],
])("%s", (_, exited, expected) => {
  expect(exited).toMatchObject(expected);
});

test("a program that could not start has no start time", () => {
  const exited = decideExit({ kind: "start-failed", exitCode: 127, message: "m" }, context);
  expect(exited).toEqual({ kind: "exited", reason: "StartFailed", exitCode: 127, message: "m", finishedAt: 2 });
});
