import { expect, test } from "vitest";
import { decideExit } from "./program-exit.ts";
import type { ExitContext } from "./program-exit.ts";

const context: ExitContext = { killed: false, killSignal: "SIGTERM", startedAt: 1, finishedAt: 2 };
const ended = (exitCode: number, oomKilled = false) => ({ kind: "exited" as const, exitCode, oomKilled });

test.each([
  ["reports code 0 as Completed", decideExit(ended(0), context), { reason: "Completed", exitCode: 0 }],
  ["reports another code as Error", decideExit(ended(3), context), { reason: "Error", exitCode: 3 }],
  ["reports 137 after an OOM kill as OOMKilled", decideExit(ended(137, true), context), { reason: "OOMKilled", exitCode: 137 }],
  [
    "reports the signal that killed the program",
    decideExit({ ...ended(137), isSignalled: true }, context),
    { reason: "Error", exitCode: 137, signal: 9, message: "program was killed by SIGKILL" },
  ],
  [
    "takes 128 + n for a signal if the launcher cannot tell",
    decideExit(ended(139), context),
    { exitCode: 139, signal: 11, message: "program was killed by SIGSEGV" },
  ],
  [
    "reports a stop as Stopped with the program's own code",
    decideExit(ended(0), { ...context, stop: "Stopped" }),
    { reason: "Stopped", exitCode: 0 },
  ],
  [
    "prefers Stopped over OOMKilled",
    decideExit(ended(137, true), { ...context, stop: "Stopped", killed: true }),
    { reason: "Stopped" },
  ],
  [
    "reports a timeout as 143",
    decideExit(ended(143), { ...context, stop: "Timeout" }),
    { reason: "Timeout", exitCode: 143, signal: 15 },
  ],
  [
    "reports a timeout that needed SIGKILL as 137",
    decideExit(ended(137), { ...context, stop: "Timeout", killed: true }),
    { reason: "Timeout", exitCode: 137 },
  ],
  [
    "reports a timeout as 143 even if the program chose a code",
    decideExit(ended(0), { ...context, stop: "Timeout" }),
    { reason: "Timeout", exitCode: 143 },
  ],
  [
    "reports a timeout before the program ran as Timeout",
    decideExit({ kind: "start-failed", exitCode: 126, message: "m" }, { ...context, stop: "Timeout", timeoutMs: 80 }),
    { reason: "Timeout", exitCode: 143, signal: 15, message: "program reached its time limit of 80 ms before it ran: m" },
  ],
  [
    "reports a stop before the program ran as Stopped",
    decideExit({ kind: "start-failed", exitCode: 126, message: "m" }, { ...context, stop: "Stopped", killed: true }),
    { reason: "Stopped", exitCode: 137 },
  ],
  [
    "reports an unknown exit status as Lost",
    decideExit({ kind: "lost", message: "m" }, context),
    { reason: "Lost", exitCode: -1, message: "m" },
  ],
])("%s", (_, exited, expected) => {
  expect(exited).toMatchObject(expected);
});

test("has no signal if the program exits with 128 + n itself", () => {
  const exited = decideExit({ ...ended(137), isSignalled: false }, context);
  expect(exited).toMatchObject({ reason: "Error", exitCode: 137, message: "program exited with code 137" });
  expect(exited).not.toHaveProperty("signal");
});

test("has no start time for a program that could not start", () => {
  const exited = decideExit({ kind: "start-failed", exitCode: 127, message: "m" }, context);
  expect(exited).toEqual({ kind: "exited", reason: "StartFailed", exitCode: 127, message: "m", finishedAt: 2 });
});
