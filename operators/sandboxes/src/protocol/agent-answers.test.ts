import { formatTime } from "@keelson/api-machinery/time";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { hasLoadChange } from "../fleet/warm-status.ts";
import {
  agentStatusInSteps,
  agentStatusOf,
  createAnswerOf,
  execEndOf,
  fileResultInSteps,
  fileResultOf,
  folderLineOf,
  processResultOf,
} from "./agent-answers.ts";
import { AgentError } from "./agent-error.ts";

const sandboxId = "0123456789abcdef".repeat(2);
const volumeId = "12345678-1234-1234-1234-123456789012";

const sandbox = {
  sandboxId,
  claimUid: "uid",
  claimName: "one",
  namespace: "default",
  phase: "running",
  message: "",
  createdAt: 1,
  exitCode: 137,
  ports: [80],
  openPorts: [80],
  expiresAtMs: null,
  paused: false,
  idleSinceMs: 5,
  denied: { count: 1, destinations: ["10.0.0.1:80/tcp"] },
};

const status = {
  agentId: "agent",
  nodeName: "node",
  capacity: 4,
  allocated: 1,
  images: ["host"],
  sandboxStatuses: [sandbox],
  volumes: [volumeId],
  volumeSizes: { [volumeId]: 1024 },
  warm: {
    shells: { desired: 1, ready: 1 },
    images: { desired: 0, ready: 0 },
    starts: { cold: 0, shell: 1, image: 0 },
    refills: { count: 1, totalMs: 4.5 },
    problem: "none",
  },
};

const file = { name: "one", type: "file", sizeBytes: 1, mode: 0o644, modifiedMs: 1 };
const process = { processId: "p", command: ["a"], state: "exited", exitCode: 0, startedMs: 1, outputBytes: 1, inputBytes: 0 };

/** A copy of a value with another one somewhere in it. */
function damaged(value: unknown, steps: readonly number[], by: unknown): unknown {
  const [step, ...rest] = steps;
  if (typeof value !== "object" || value === null || step === undefined) return by;
  const keys = Object.keys(value);
  const key = keys[step % (keys.length || 1)];
  if (key === undefined) return by;
  const child: unknown = Reflect.get(value, key);
  return Array.isArray(value)
    ? Object.assign([...(value as unknown[])], { [key]: damaged(child, rest, by) })
    : { ...value, [key]: damaged(child, rest, by) };
}

describe("an answer of an agent", () => {
  it("is read as it is if it is valid, without unknown fields", () => {
    expect(agentStatusOf({ ...status, later: 1 })).toEqual(status);
    expect(createAnswerOf({ success: true, sandboxId, startMs: 1.5, start: "shell" })).toEqual({
      ...{ success: true, sandboxId, startMs: 1.5, start: "shell" },
    });
    expect(createAnswerOf({ success: false, message: "command: must be a list" })).toEqual({
      ...{ success: false, message: "command: must be a list" },
    });
    expect(fileResultOf({ entries: [file], inode: 7 })).toEqual({ entries: [file], inode: 7 });
    expect(fileResultOf({ info: { ...file, name: "/" } })).toEqual({ info: { ...file, name: "/" } });
    expect(processResultOf({ processes: [process] })).toEqual({ processes: [process] });
    expect(folderLineOf({ changes: [{ type: "write", path: "a", isDirectory: false }], isLossy: false })).toEqual({
      ...{ changes: [{ type: "write", path: "a", isDirectory: false }], isLossy: false },
    });
    expect(folderLineOf({ hasEnded: true })).toEqual({ hasEnded: true });
    expect(execEndOf({ exitCode: 137 })).toEqual({ exitCode: 137 });
  });

  it.each([
    ["volumes", { ...status, volumes: { length: 1 } }],
    ["volumes[0]", { ...status, volumes: ["../../etc"] }],
    ["sandboxStatuses", { ...status, sandboxStatuses: null }],
    ["sandboxStatuses[0].sandboxId", { ...status, sandboxStatuses: [{ ...sandbox, sandboxId: "../one" }] }],
    ["sandboxStatuses[0].phase", { ...status, sandboxStatuses: [{ ...sandbox, phase: "constructor" }] }],
    ["sandboxStatuses[0].idleSinceMs", { ...status, sandboxStatuses: [{ ...sandbox, idleSinceMs: 9e15 }] }],
    ["sandboxStatuses[0].createdAt", { ...status, sandboxStatuses: [{ ...sandbox, createdAt: -1e300 }] }],
    ["capacity", { ...status, capacity: 1e9 }],
    ["warm.starts.shell", { ...status, warm: { ...status.warm, starts: { cold: 0, image: 0 } } }],
    ["images[0]", { ...status, images: ["a".repeat(2000)] }],
    ["nodeName", { ...status, nodeName: undefined }],
  ])("is rejected with the name of the field: %s", (field, value) => {
    expect(() => agentStatusOf(value)).toThrow(`the agent sent an invalid answer: ${field} must be`);
  });

  it("is checked in steps with the same result, with a pause before each sandbox", async () => {
    let pauses = 0;
    const pause = (): Promise<void> | undefined => ((pauses += 1) % 2 === 0 ? Promise.resolve() : undefined);
    const many = { ...status, sandboxStatuses: [sandbox, sandbox, sandbox] };
    expect(await agentStatusInSteps({ ...many, later: 1 }, pause)).toEqual(many);
    expect(pauses).toBe(3);
    for (const [field, value] of [
      ["sandboxStatuses", { ...status, sandboxStatuses: null }],
      [
        "sandboxStatuses[1].denied.destinations[0]",
        { ...status, sandboxStatuses: [sandbox, { ...sandbox, denied: { count: 1, destinations: [5] } }] },
      ],
      ["warm.starts.shell", { ...status, warm: { ...status.warm, starts: { cold: 0, image: 0 } } }],
      ["it", null],
    ] as const) {
      const message = `the agent sent an invalid answer: ${field} must be`;
      await expect(agentStatusInSteps(value, pause)).rejects.toThrow(message);
      expect(() => agentStatusOf(value)).toThrow(message);
    }
  });

  it("lists files in steps", async () => {
    let pauses = 0;
    const pause = (): undefined => void (pauses += 1);
    const entries = Array.from({ length: 100 }, (_, index) => ({ ...file, name: String(index) }));
    expect(await fileResultInSteps({ entries, later: 1 }, pause)).toEqual({ entries });
    expect(pauses).toBe(100);
    expect(await fileResultInSteps({ info: file }, pause)).toEqual({ info: file });
    for (const value of [null, { entries: 5 }, { entries: [null] }, { info: null }, { entries, inode: -1 }])
      await expect(fileResultInSteps(value, pause)).rejects.toThrow(AgentError);
  });

  it.each(["..", ".", "", "../../.bashrc", "a/b", "a\0b"])(
    "cannot name a file outside the listed directory: %j",
    async (name) => {
      await expect(fileResultInSteps({ entries: [{ ...file, name }] }, () => undefined)).rejects.toThrow(AgentError);
      expect(() => fileResultOf({ entries: [{ ...file, name }] })).toThrow(AgentError);
      expect(() => fileResultOf({ info: { ...file, name } })).toThrow(AgentError);
    },
  );

  it("cannot control a terminal, or fill the objects that its texts are written to", () => {
    const [read] = agentStatusOf({
      ...status,
      sandboxStatuses: [{ ...sandbox, message: `\u001b[2Jone\ntwo\u202e${"x".repeat(100_000)}` }],
    }).sandboxStatuses;
    expect(read?.message.slice(0, 13)).toBe("?[2Jone\ntwo?x");
    expect(read?.message.length).toBe(4096);
  });

  it("may identify a file by an inode of 64 bits, also one that an agent of an earlier version rounded", () => {
    expect(fileResultOf({ inode: "9223372036865870145" })).toEqual({ inode: "9223372036865870145" });
    expect(fileResultOf({ inode: 9_223_372_036_865_870_000 }).inode).toBeUndefined();
    for (const inode of [-1, 0.5, "a", "", "1".repeat(21), null, {}]) expect(() => fileResultOf({ inode })).toThrow(AgentError);
  });

  it("may describe files with sizes and times beyond those of a date, which a sandbox can set", () => {
    const { info } = fileResultOf({ info: { ...file, sizeBytes: 2 ** 63, modifiedMs: -1e22 } });
    expect(info).toMatchObject({ sizeBytes: Number.MAX_SAFE_INTEGER, modifiedMs: -8.64e15 });
  });

  it("is valid or rejected with an AgentError, wherever it is damaged", () => {
    fc.assert(
      fc.property(fc.array(fc.nat(20), { maxLength: 6 }), fc.jsonValue(), (steps, by) => {
        const value = damaged(status, steps, by);
        try {
          const read = agentStatusOf(value);
          expect(agentStatusOf(read)).toEqual(read);
          hasLoadChange(undefined, read);
          for (const { idleSinceMs = 0, createdAt } of read.sandboxStatuses) formatTime(idleSinceMs + 0 * createdAt);
        } catch (error) {
          expect(error).toBeInstanceOf(AgentError);
        }
      }),
      { numRuns: 500 },
    );
  });
});
