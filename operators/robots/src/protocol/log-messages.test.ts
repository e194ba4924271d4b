import { expect, it } from "vitest";
import { readExecMessage, readExecReport } from "./exec-messages.ts";
import { readLogPosition } from "./log-messages.ts";

const id = "00000000-0000-4000-8000-000000000001";
const position = { after: 7, offset: 4, last: "b25lCg==" };
const start = {
  ...{ id, seq: 0, kind: "logs", issuedAt: 1, taskUid: id, attempt: 1, timeoutMs: 1000 },
  ...{ isFollowing: true, tailLines: 5, streams: ["stderr", "stdout"], from: { stdout: position } },
};

it("reads a request for output", () => {
  expect(readExecMessage(start)).toEqual({ ...start, streams: ["stdout", "stderr"] });
});

it.each([
  ["no streams", { streams: [] }],
  ["an unknown stream", { streams: ["stdin"] }],
  ["a stream twice", { streams: ["stdout", "stdout"] }],
  ["too many lines", { tailLines: 1_000_001 }],
  ["no time", { timeoutMs: 0 }],
  ["another form of uid", { taskUid: "../../etc" }],
  ["no attempt", { attempt: -1 }],
])("rejects a request with %s", (_, change) => {
  expect(readExecMessage({ ...start, ...change })).toBeUndefined();
});

it.each([
  ["a negative offset", { ...position, offset: -1 }],
  ["a file that is not a number", { ...position, after: "/etc/passwd" }],
  ["bytes before the beginning", { ...position, offset: 3 }],
  ["too many bytes", { ...position, offset: 1000, last: "A".repeat(68) }],
  ["bytes in another encoding", { ...position, last: "\0" }],
  ["nothing", undefined],
])("ignores a position with %s", (_, value) => {
  expect(readLogPosition(value)).toBeUndefined();
  const report = { id, seq: 0, kind: "output", stream: "stdout", data: "b25lCg==", position: value };
  expect(readExecReport(report as never)).not.toHaveProperty("position");
});
