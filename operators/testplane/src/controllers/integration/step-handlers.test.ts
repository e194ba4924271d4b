import { type DeepReadonly, jsonEquals } from "@keelson/api-machinery";
import { describe, expect, it } from "vitest";
import type { IntegrationTestSpec, IntegrationTestStatus } from "../../api/integration-test.ts";
import { reportTest } from "../../reports/report.ts";
import { junitReport } from "../../reports/junit.ts";
import { decideIntegrationTest } from "./integration-test-decision.ts";

const selector = { apiVersion: "example.com/v1", kind: "Board", name: "board" };
/** A step that passes or fails when the board says so. */
const step = (name: string, more: object = {}) => ({
  name,
  resource: { selector },
  expectations: { allOf: [{ cel: `object.${name} == 'passes'` }], failWhen: [{ cel: `object.${name} == 'fails'` }] },
  ...more,
});

/** Runs a test whose steps wait for their result on the board. */
function start(first: IntegrationTestSpec) {
  let now = Date.UTC(2026, 0, 1);
  let spec = first;
  let status: DeepReadonly<IntegrationTestStatus> = {};
  const started: string[] = [];
  const names = [...JSON.stringify(spec).matchAll(/"name":"([a-z]+)","resource"/g)].map(([, name = ""]) => name);
  const board = new Map(names.map((name) => [name, "waits"]));
  const settle = (): void => {
    for (let turn = 0; turn < 100; turn++) {
      const decision = decideIntegrationTest({
        ...{ spec, generation: 1, namespace: "default", program: { command: ["tool"] }, status, now },
        webhookState: () => undefined,
        observe: () => ({ kind: "known", objects: [Object.fromEntries(board)], hasSeen: () => true }),
      });
      started.push(...decision.events.filter(({ reason }) => reason === "StepStarted").map(({ note }) => note.slice(9)));
      const isSettled = jsonEquals(decision.status, status);
      status = decision.status;
      if (isSettled) return;
    }
    throw new Error("the test does not settle");
  };
  settle();
  return {
    /** Steps that have started since the last call. */
    started: () => started.splice(0),
    see(name: string, result: "passes" | "fails") {
      board.set(name, result);
      settle();
    },
    change(fields: Partial<IntegrationTestSpec>) {
      spec = { ...spec, ...fields };
      settle();
    },
    wait(seconds: number) {
      now += seconds * 1_000;
      settle();
    },
    get status() {
      return status;
    },
  };
}

const handled = (name: string, more: object = {}) =>
  step(name, { catch: [step("dump"), step("dumpmore")], finally: [step("close")], ...more });

describe("the catch and finally steps of a step", () => {
  it("run one after another once it has failed, before those of the test", () => {
    const test = start({ steps: [handled("a"), step("b")], catch: [step("all")], finally: [step("end")] });
    expect(test.started()).toEqual(["a"]);
    test.see("a", "fails");
    expect(test.started()).toEqual(["a: dump"]);
    test.see("dump", "passes");
    expect(test.started()).toEqual(["a: dumpmore"]);
    test.see("dumpmore", "fails");
    expect(test.started()).toEqual(["a: close"]);
    test.see("close", "passes");
    expect(test.started()).toEqual(["all"]);
    test.see("all", "passes");
    test.see("end", "passes");
    expect(test.started()).toEqual(["end"]);
    expect(test.status).toMatchObject({ verdict: "Failed", message: expect.stringMatching(/^round 1: a: CheckFailed/) });
  });

  it("are only the finally steps if it succeeded, and steps that need it start after them", () => {
    const test = start({ steps: [handled("a"), step("b")] });
    test.see("a", "passes");
    expect(test.started()).toEqual(["a", "a: close"]);
    test.see("close", "passes");
    expect(test.started()).toEqual(["b"]);
    test.see("b", "passes");
    expect(test.status).toMatchObject({
      verdict: "Passed",
      progress: "2/2",
      steps: [{}, {}, { phase: "Catch", state: "" }, {}, {}],
    });
  });

  it("do not delay steps that do not need it, but the end of the round", () => {
    const test = start({ mode: "Parallel", steps: [handled("a"), step("b")] });
    test.see("a", "passes");
    test.see("b", "passes");
    expect(test.started()).toEqual(["a", "b", "a: close"]);
    expect(test.status.completionTime).toBeUndefined();
    test.see("close", "passes");
    expect(test.status.verdict).toBe("Passed");
  });

  it("run after its last attempt", () => {
    const test = start({ steps: [handled("a", { retries: 1 })] });
    test.see("a", "fails");
    expect(test.started()).toEqual(["a"]);
    test.wait(1);
    expect(test.started()).toEqual(["a", "a: dump"]);
  });

  it("make the verdict of a round whose steps passed Error if they fail, and steps that need it still run", () => {
    const test = start({ steps: [handled("a"), step("b")] });
    test.see("a", "passes");
    test.see("close", "fails");
    test.see("b", "passes");
    expect(test.started()).toEqual(["a", "a: close", "b"]);
    expect(test.status).toMatchObject({ phase: "Failed", verdict: "Error", roundHistory: [{ failedStep: "a: close" }] });
  });

  it("are cases of the reports", () => {
    const test = start({ steps: [handled("a")] });
    for (const [name, result] of [
      ["a", "fails"],
      ["dump", "passes"],
      ["dumpmore", "fails"],
      ["close", "passes"],
    ] as const)
      test.see(name, result);
    const object = { apiVersion: "", kind: "", metadata: { name: "t" }, spec: { steps: [] }, status: test.status };
    const report = reportTest({ kind: "IntegrationTest", name: "t", object: object as never });
    expect(report.cases.map(({ name, outcome }) => `${name} ${outcome}`)).toEqual([
      "a failed",
      "a: dump passed",
      "a: dumpmore failed",
      "a: close passed",
    ]);
    expect(junitReport([report])).toMatch(/<testsuites [^>]*tests="4" failures="2"/);
  });
});

describe("a stopped test", () => {
  it("runs the finally steps of started steps, but no catch", () => {
    const test = start({ steps: [handled("a"), step("b", { finally: [step("never")] })], finally: [step("end")] });
    test.change({ abort: true });
    expect(test.started()).toEqual(["a", "a: close"]);
    test.see("close", "passes");
    expect(test.started()).toEqual(["end"]);
    test.see("end", "passes");
    expect(test.status).toMatchObject({
      phase: "Aborted",
      steps: [{ reason: "Stopped" }, {}, {}, {}, { state: "Succeeded" }, {}, {}],
    });
  });

  it("stops a running catch step, and starts each finally step once", () => {
    const test = start({ steps: [handled("a")], finally: [step("end")] });
    test.see("a", "fails");
    test.change({ abort: true });
    expect(test.started()).toEqual(["a", "a: dump", "a: close"]);
    test.see("close", "passes");
    test.see("end", "passes");
    expect(test.started()).toEqual(["end"]);

    const late = start({ steps: [handled("a")], finally: [step("end")] });
    late.see("a", "passes");
    late.change({ abort: true });
    late.see("close", "passes");
    late.see("end", "passes");
    expect(late.started()).toEqual(["a", "a: close", "end"]);
  });

  it("runs the finally and cleanup steps of a step that waits for its next attempt", () => {
    const test = start({ steps: [step("a", { retries: 3, finally: [step("close")], cleanup: [step("remove")] })] });
    test.see("a", "fails");
    test.change({ abort: true });
    test.see("close", "passes");
    test.see("remove", "passes");
    expect(test.started()).toEqual(["a", "a: close", "a: remove"]);
    expect(test.status.phase).toBe("Aborted");
  });
});

it("starts no catch, finally or cleanup step while it is paused", () => {
  const test = start({
    steps: [handled("a", { cleanup: [step("remove")] })],
    finally: [step("end")],
  });
  test.change({ paused: true });
  test.see("a", "fails");
  expect(test.started()).toEqual(["a"]);
  test.change({ paused: false });
  for (const name of ["dump", "dumpmore"]) test.see(name, "passes");
  test.change({ paused: true });
  test.see("close", "passes");
  expect(test.started()).toEqual(["a: dump", "a: dumpmore", "a: close"]);
  test.change({ paused: false });
  test.see("end", "passes");
  test.see("remove", "passes");
  expect(test.started()).toEqual(["end", "a: remove"]);
  expect(test.status.verdict).toBe("Failed");
});
