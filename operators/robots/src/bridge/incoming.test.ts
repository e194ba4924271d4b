import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { maxPayloadBytes, readIncoming } from "./incoming.ts";

const uid = "00000000-0000-4000-8000-000000000001";
const statusTopic = `k8s4r/robots/robot-001/tasks/${uid}/status`;
const read = (topic: string, body: unknown) =>
  readIncoming(topic, Buffer.from(typeof body === "string" ? body : JSON.stringify(body)));
const status = {
  taskUid: uid,
  robotName: "robot-001",
  state: "running",
  message: "m",
  event: "Started",
  updatedAt: "2026-01-01T00:00:00Z",
};

describe("readIncoming", () => {
  it("parses messages of agents, including K8s4r's", () => {
    expect(read("k8s4r/register", { robotId: "robot-001", token: "t", deviceInfo: { hostname: "h", gpu: 1 } })).toEqual({
      kind: "register",
      isOwnTopic: false,
      message: { robotId: "robot-001", token: "t", deviceInfo: { hostname: "h" } },
    });
    expect(read(statusTopic, status)).toMatchObject({
      kind: "status",
      robotId: "robot-001",
      message: { state: "running", taskUid: uid },
    });
    expect(read("k8s4r/robots/robot-001/online", { online: false })).toEqual({
      kind: "online",
      robotId: "robot-001",
      online: false,
    });
  });

  it("parses registrations on a robot's own topic, for this robot only", () => {
    expect(read("k8s4r/robots/robot-001/register", { robotId: "robot-001", nonce: "n" })).toEqual({
      kind: "register",
      isOwnTopic: true,
      message: { robotId: "robot-001", token: "", nonce: "n" },
    });
    expect(read("k8s4r/robots/robot-001/heartbeat", { robotId: "robot-002" })).toEqual({
      rejected: "robotId must match the topic",
    });
  });

  it.each(["#", "+", "a/b", "", "A", "-a", "a".repeat(64), "../x"])("rejects the robot id %j (S5)", (robotId) => {
    expect(read("k8s4r/register", { robotId, token: "t" })).toHaveProperty("rejected");
    expect(read(`k8s4r/robots/${robotId}/online`, { online: true })).toHaveProperty("rejected");
  });

  it.each([
    ["another task than the topic's (S4)", { ...status, taskUid: "00000000-0000-4000-8000-000000000002" }],
    ["another robot than the topic's (S4)", { ...status, robotName: "robot-002" }],
    ["an unknown state", { ...status, state: "done" }],
    ["a negative attempt", { ...status, attempt: -1 }],
    ["a start after the year 9999", { ...status, startedAt: "+010000-01-01T00:00:00Z" }],
    ["an end before the year 0", { ...status, finishedAt: "-000001-12-31T23:59:59Z" }],
    ["an update in the year 275760", { ...status, updatedAt: "+275760-09-13T00:00:00Z" }],
    ["a number that is a string", { ...status, seq: "1" }],
  ])("rejects a status with %s", (_, body) => {
    expect(read(statusTopic, body)).toHaveProperty("rejected");
  });

  it("names the field with a time that is out of range", () => {
    expect(read(statusTopic, { ...status, startedAt: "+010000-01-01T00:00:00Z" })).toEqual({
      rejected: "startedAt must be between the years 0 and 9999",
    });
    expect(read(statusTopic, { ...status, startedAt: "9999-12-31T23:59:59.999Z" })).toMatchObject({ kind: "status" });
  });

  it("drops measurements with a time that is out of range", () => {
    const body = { robotId: "r", token: "t", deviceInfo: { lastUpdated: "+010000-01-01T00:00:00Z" } };
    expect(read("k8s4r/heartbeat", body)).toEqual({
      kind: "heartbeat",
      isOwnTopic: false,
      message: { robotId: "r", token: "t" },
    });
  });

  it.each(["k8s4r/register", "k8s4r/robots/r/lease"])("bounds the tasks of a message to %s", (topic) => {
    const body = (count: number) => ({
      ...{ robotId: "r", token: "t", nonce: "n" },
      tasks: Array.from({ length: count }, () => ({ taskUid: uid, attempt: 1 })),
    });
    expect(read(topic, body(4096))).not.toHaveProperty("rejected");
    expect(read(topic, body(4097))).toEqual({ rejected: "tasks must be a list of at most 4096 {taskUid, attempt}" });
  });

  it("rejects a uid that is a path (S6)", () => {
    expect(read("k8s4r/robots/robot-001/tasks/../status", status)).toHaveProperty("rejected");
  });

  it("cuts long text, keeps the end of logs and replaces control characters (S15)", () => {
    const result = read(statusTopic, {
      ...status,
      message: `\u001b[31m${"x".repeat(9000)}`,
      logsStdout: `${"a".repeat(9000)}\u0007\tend\n`,
    });
    if ("rejected" in result || result.kind !== "status") throw new Error("rejected");
    expect(result.message.message).toHaveLength(4096);
    expect(result.message.message.startsWith("\ufffd[31m")).toBe(true);
    expect(result.message.logsStdout).toHaveLength(4096);
    expect(result.message.logsStdout?.endsWith("\ufffd\tend\n")).toBe(true);
  });

  it("replaces control characters in measurements and labels", () => {
    const deviceInfo = { hostname: "\u001b[2Jh", platform: { os: "li\u0007nux" }, disks: [{ device: "\u0000d", total: 5 }] };
    expect(read("k8s4r/register", { robotId: "r", token: "t", deviceInfo, labels: { "a\u001b": "b\u0007" } })).toMatchObject({
      message: {
        deviceInfo: { hostname: "\ufffd[2Jh", platform: { os: "li\ufffdnux" }, disks: [{ device: "\ufffdd", total: 5 }] },
        labels: { "a\ufffd": "b\ufffd" },
      },
    });
  });

  it("accepts a registration with invalid measurements, without them", () => {
    expect(read("k8s4r/heartbeat", { robotId: "r", token: "t", deviceInfo: { cpu: { logicalCores: "many" } } })).toEqual({
      kind: "heartbeat",
      isOwnTopic: false,
      message: { robotId: "r", token: "t" },
    });
  });

  it("is not affected by __proto__ in a payload", () => {
    const result = read("k8s4r/register", '{"robotId":"r","token":"t","labels":{"__proto__":"x"},"__proto__":{"robotId":"y"}}');
    expect(({} as Record<string, unknown>).robotId).toBeUndefined();
    if ("rejected" in result || result.kind !== "register") throw new Error("rejected");
    expect(Object.getPrototypeOf(result.message.labels)).toBe(Object.prototype);
  });

  it("rejects payloads that are too large or not a JSON object, and never throws", () => {
    expect(readIncoming("k8s4r/register", Buffer.alloc(maxPayloadBytes + 1, 32))).toHaveProperty("rejected");
    expect(read("k8s4r/register", "[".repeat(100_000))).toHaveProperty("rejected");
    fc.assert(
      fc.property(
        fc.constantFrom("k8s4r/register", "k8s4r/heartbeat", statusTopic, "k8s4r/robots/r/online", "x"),
        fc.oneof(fc.json(), fc.string()),
        (topic, body) => {
          expect(readIncoming(topic, Buffer.from(body))).toBeTypeOf("object");
        },
      ),
    );
  });
});
