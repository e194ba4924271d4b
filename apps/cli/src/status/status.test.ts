import { expect, test } from "vitest";
import { objectHealth } from "./object-health.ts";
import { renderStatus } from "./render-status.ts";

const object = (status?: object) => ({ apiVersion: "v1", kind: "X", metadata: { name: "x" }, ...(status && { status }) });
const notReady = { type: "Ready", status: "False", reason: "NoAgent", message: "no agent has capacity" };

test.each<[string, object | undefined, object]>([
  ["no status", undefined, { state: "" }],
  ["a phase", { phase: "Running" }, { state: "Running" }],
  ["a job's status", { jobStatus: "Completed", conditions: [notReady] }, { state: "Completed" }],
  ["a failure with a message", { state: "failed", message: "exit status 3" }, { state: "failed", problem: "exit status 3" }],
  ["a failure with a reason", { phase: "Failed", reason: "Timeout" }, { state: "Failed", problem: "Timeout" }],
  ["a failure without either", { phase: "Lost" }, { state: "Lost", problem: "Lost" }],
  ["a condition", { phase: "Running", conditions: [notReady] }, { state: "Running", problem: "no agent has capacity" }],
  ["a condition while it settles", { phase: "Creating", conditions: [notReady] }, { state: "Creating" }],
  ["conditions without a phase", { conditions: [{ ...notReady, status: "True" }] }, { state: "Ready" }],
  ["a false condition without a phase", { conditions: [notReady] }, { state: "NotReady", problem: "no agent has capacity" }],
  ["a condition that holds", { phase: "Running", conditions: [{ ...notReady, status: "True" }] }, { state: "Running" }],
])("the health of an object with %s", (_, status, health) => {
  expect(objectHealth(object(status))).toEqual(health);
});

test("a status is shown as aligned tables", () => {
  const problem = (name: string) => ({ kind: "App", namespace: "default", name, state: "Failed", problem: "no volume" });
  const text = renderStatus({
    components: [
      { name: "apiserver", state: "ready", detail: "https://127.0.0.1:6443" },
      { name: "mpi", state: "not installed", detail: "" },
    ],
    kinds: [{ family: "middleware", kind: "App", total: 3, states: { Running: 2, "": 1 } }],
    workloads: [
      {
        kind: "App",
        namespace: "default",
        name: "w",
        state: "Updating",
        seconds: 3_725,
        detail: "a replica",
        needsAttention: false,
      },
      { kind: "Robot", name: "r", state: "Offline", seconds: 59, detail: "no heartbeat", needsAttention: true },
    ],
    problems: [
      { kind: "Robot", name: "r", state: "Offline", problem: "no heartbeat" },
      ...Array.from({ length: 22 }, (_, index) => problem(`a-${index}`)),
    ],
  });
  const lines = text.split("\n");
  expect(lines.slice(0, 11)).toEqual([
    "COMPONENT  STATE          DETAIL",
    "apiserver  ready          https://127.0.0.1:6443",
    "mpi        not installed",
    "",
    "FAMILY      KIND  TOTAL  STATES",
    "middleware  App   3      2 Running, 1 without status",
    "",
    "WORKLOAD       STATE     TIME  WAITS FOR",
    "App default/w  Updating  1h2m  a replica",
    "Robot r        Offline   59s   no heartbeat",
    "",
  ]);
  expect(lines[12]).toBe("App default/a-0   Failed  no volume");
  expect(lines.at(-2)).toBe("and 2 more; see -o json");
});
