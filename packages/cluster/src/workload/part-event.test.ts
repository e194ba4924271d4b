import { expect, test } from "vitest";
import { partEvent } from "./part-event.ts";

const pod = { kind: "Pod", name: "p-0" };

test.each([
  ["ReplicaSet", "create", undefined, "replicaset-controller SuccessfulCreate: Created pod: p-0"],
  ["Job", "delete", undefined, "job-controller SuccessfulDelete: Deleted pod: p-0"],
  ["ReplicaSet", "create", "no quota", "replicaset-controller FailedCreate: Error creating: no quota"],
  ["StatefulSet", "create", undefined, "statefulset-controller SuccessfulCreate: create Pod p-0 in StatefulSet own successful"],
  ["StatefulSet", "delete", undefined, "statefulset-controller SuccessfulDelete: delete Pod p-0 in StatefulSet own successful"],
  ["StatefulSet", "create", "why", "statefulset-controller FailedCreate: create Pod p-0 in StatefulSet own failed error: why"],
] as const)("of a %s: %s, %s", (kind, verb, problem, text) => {
  const write = { verb, part: pod, owner: { kind, name: "own" }, ...(problem === undefined ? {} : { problem }) };
  const { controller, reason, note } = partEvent(write);
  expect(`${controller} ${reason}: ${note}`).toBe(text);
});

test("a StatefulSet reports its claims", () => {
  const part = { kind: "PersistentVolumeClaim", name: "data-db-0" };
  const { note } = partEvent({ verb: "create", part, owner: { kind: "StatefulSet", name: "db" } });
  expect(note).toBe("create Claim data-db-0 Pod db-0 in StatefulSet db success");
});
