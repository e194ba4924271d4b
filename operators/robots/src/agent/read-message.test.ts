import { expect, it } from "vitest";
import { topics } from "../protocol/messages.ts";
import { readMessage } from "./read-message.ts";

const uid = "0b0e3c84-7f62-4d3f-9a53-0d9f0a6c1f11";
const read = (topic: string, message: unknown) =>
  readMessage(topic, Buffer.from(typeof message === "string" ? message : JSON.stringify(message)), {
    robotId: "r1",
    drivers: ["exec"],
  });

it("reads what the server answers to a registration, cut to what a log takes", () => {
  expect(read(topics.response("r1"), { success: true, message: "x".repeat(1000) })).toEqual({
    kind: "response",
    isRegistered: true,
    answer: "x".repeat(300),
  });
  expect(read(topics.response("r1"), { success: "true" })).toEqual({ kind: "response", isRegistered: false, answer: "" });
});

it("reads an acknowledgement of the task that its topic names, and of no other", () => {
  const ack = { taskUid: uid, attempt: 2, seq: 7 };
  expect(read(topics.ack("r1", uid), ack)).toEqual({ kind: "ack", uid, attempt: 2, seq: 7 });
  expect(read(topics.ack("r1", "another"), ack)).toEqual({ kind: "dropped", reason: "it acknowledges nothing" });
  expect(read(topics.ack("r1", uid), { ...ack, seq: "7" })).toEqual({ kind: "dropped", reason: "it acknowledges nothing" });
});

it.each([
  [topics.response("r1"), "no JSON", "it is no JSON object"],
  [topics.ack("r1", uid), "[]", "it is no JSON object"],
  [topics.dispatch("r1"), "null", "a dispatch: "],
])("drops what is no message on %s", (topic, text, reason) => {
  expect(read(topic, text)).toMatchObject({ kind: "dropped", reason: expect.stringContaining(reason) });
});
