import { expect, it } from "vitest";
import { launcherMessage, workerMessage } from "./messages.ts";
import { parseRankFile } from "../rank-wrapper.ts";

it.each([
  { type: "ended", exitCode: 256 },
  { type: "ended", exitCode: -1 },
  { type: "ended", exitCode: 0.5 },
  { type: "rankEnded", rank: 0, exitCode: 256, at: 1 },
  { type: "rankEnded", rank: -1, exitCode: 1, at: 1 },
  { type: "rankEnded", rank: 0, exitCode: 1, at: "1" },
  { type: "callEnded", call: 1, exitCode: 512 },
  { type: "join", worker: 1e9 },
  { type: "join", worker: "0" },
  ["join"],
  null,
])("ignores a worker's message that no worker sends: %j", (message) => {
  expect(workerMessage(message)).toBeUndefined();
});

it.each([{ type: "over", exitCode: 256 }, { type: "run", words: [] }, { type: "run", words: [1] }, "run"])(
  "ignores a launcher's message that no launcher sends: %j",
  (message) => {
    expect(launcherMessage(message)).toBeUndefined();
  },
);

it("does not read an exit status as success that a program wrote into the file of its worker", () => {
  expect(parseRankFile("0 256\n1 512\n1000000000 1\n2 3", 0, 5)).toEqual([
    { rank: 0, exitCode: 255, at: 5 },
    { rank: 1, exitCode: 255, at: 5 },
  ]);
});
