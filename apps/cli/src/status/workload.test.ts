import { expect, test } from "vitest";
import { byUrgency, isWorkload, workloadStatus } from "./workload.ts";

const now = Date.parse("2030-01-01T01:00:00Z");
const object = (status: object, metadata: object = {}) => ({
  ...{ apiVersion: "example.com/v1", kind: "Job" },
  metadata: { name: "a", namespace: "n", creationTimestamp: "2030-01-01T00:00:00Z", ...metadata },
  status,
});

test.each<[string, object, object]>([
  ["counts from its creation", { phase: "Pending" }, { state: "Pending", seconds: 3_600, detail: "" }],
  ["counts from its start", { phase: "Running", startTime: "2030-01-01T00:59:00Z" }, { seconds: 60 }],
  [
    "stops counting at its end",
    { phase: "Succeeded", startTime: "2030-01-01T00:10:00Z", completionTime: "2030-01-01T00:10:05Z", message: "done" },
    { seconds: 5, detail: "" },
  ],
  ["shows the first line of its message", { phase: "Pending", message: "2 of 3 Pods\nmore" }, { detail: "2 of 3 Pods" }],
  [
    "shows why it waits by a condition",
    { phase: "Creating", conditions: [{ type: "Ready", status: "False", message: "no free slot" }] },
    { detail: "no free slot", needsAttention: false },
  ],
  ["shows its step", { phase: "Initializing", progress: "2/5" }, { detail: "step 2/5" }],
  [
    "shows why it needs attention",
    { phase: "Failed", message: "exit code 3" },
    { detail: "exit code 3", needsAttention: true },
  ],
])("a workload %s", (_, status, expected) => {
  expect(workloadStatus(object(status), now)).toMatchObject({ kind: "Job", namespace: "n", name: "a", ...expected });
});

test("a workload that is being deleted is Terminating, and one with a controller is not a workload", () => {
  const deleted = object({ phase: "Running" }, { deletionTimestamp: "2030-01-01T00:59:00Z" });
  expect(workloadStatus(deleted, now).state).toBe("Terminating");
  const ownerReferences = [{ apiVersion: "v1", kind: "X", name: "x", uid: "u", controller: true }];
  expect([isWorkload(object({})), isWorkload(object({}, { ownerReferences }))]).toEqual([true, false]);
});

test("what needs attention comes first, then what waits, then the youngest", () => {
  const line = (name: string, seconds: number, detail = "", needsAttention = false) => ({
    ...{ kind: "Job", name, state: "Running", seconds, detail, needsAttention },
  });
  const sorted = [line("old", 9), line("young", 1), line("waits", 5, "a slot"), line("bad", 7, "failed", true)].sort(byUrgency);
  expect(sorted.map(({ name }) => name)).toEqual(["bad", "waits", "young", "old"]);
});
