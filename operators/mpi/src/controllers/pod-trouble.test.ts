import { expect, it } from "vitest";
import { terminationMessage } from "./pod-trouble.ts";

it("removes terminal control sequences that a program wrote from the message", () => {
  const message = "rank 0 on worker 0 failed: exit code 1: \u001b]0;title\u0007\u001b[2Jall\u009bgood\r";
  const state = { terminated: { exitCode: 1, message: `noise\nkeelson mpi launcher: ${message}\n` } };
  const status = { containerStatuses: [{ name: "launcher", state, ready: false, restartCount: 0, image: "", imageID: "" }] };
  const pod = { apiVersion: "v1", kind: "Pod", metadata: { name: "a" }, spec: { containers: [] }, status };
  expect(terminationMessage(pod)).toBe("rank 0 on worker 0 failed: exit code 1: ]0;title[2Jallgood");
});
