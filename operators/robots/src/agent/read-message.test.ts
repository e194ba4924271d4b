import { expect, it } from "vitest";
import { topics } from "../protocol/messages.ts";
import { defaultRobotPolicy } from "./policy/robot-policy.ts";
import { readMessage } from "./read-message.ts";

const uid = "0b0e3c84-7f62-4d3f-9a53-0d9f0a6c1f11";
const read = (topic: string, message: unknown) =>
  readMessage(topic, Buffer.from(typeof message === "string" ? message : JSON.stringify(message)), {
    robotId: "r1",
    ...defaultRobotPolicy,
  });

it("parses the response to a registration and shortens its message", () => {
  expect(read(topics.response("r1"), { success: true, message: "x".repeat(1000) })).toEqual({
    kind: "response",
    isRegistered: true,
    answer: "x".repeat(300),
    isCredentialBound: false,
    warning: "",
  });
  expect(read(topics.response("r1"), { success: "true" })).toMatchObject({ isRegistered: false, answer: "" });
  expect(read(topics.response("r1"), { success: true, isCredentialBound: true, warning: "w" })).toMatchObject({
    isCredentialBound: true,
    warning: "w",
  });
});

it("accepts an acknowledgement only of the task that its topic names", () => {
  const ack = { taskUid: uid, attempt: 2, seq: 7 };
  expect(read(topics.ack("r1", uid), ack)).toEqual({ kind: "ack", uid, attempt: 2, seq: 7 });
  const invalid = { kind: "invalid", reason: "not a valid acknowledgement" };
  expect(read(topics.ack("r1", "another"), ack)).toEqual(invalid);
  expect(read(topics.ack("r1", uid), { ...ack, seq: "7" })).toEqual(invalid);
});

it.each([
  [topics.response("r1"), "not JSON", "payload must be a JSON object"],
  [topics.ack("r1", uid), "[]", "payload must be a JSON object"],
  [topics.dispatch("r1"), "null", "dispatch: "],
])("rejects an invalid message on %s", (topic, text, reason) => {
  expect(read(topic, text)).toMatchObject({ kind: "invalid", reason: expect.stringContaining(reason) });
});
