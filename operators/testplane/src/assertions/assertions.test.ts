import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { evaluateCel, validateCel } from "./cel-assertion.ts";
import { checkAssertion, expectationName } from "./check-assertion.ts";
import { checkJsonPath, type JsonPathAssertion, validateJsonPath } from "./json-path-assertion.ts";
import { formatDifferences, partialDifferences } from "./partial-match.ts";
import { terminalState } from "./terminal-state.ts";

const web = {
  apiVersion: "apps/v1",
  kind: "Deployment",
  metadata: { name: "web", labels: { app: "web", "example.com/tier": "front" } },
  spec: { replicas: 3, ports: [80, 443], resources: { cpu: "500m" } },
  status: {
    readyReplicas: 2,
    conditions: [
      { type: "Available", status: "True" },
      { type: "Progressing", status: "True" },
    ],
  },
};

describe("a partial object", () => {
  it.each<[string, unknown, string[]]>([
    ["matches the fields that it has", { kind: "Deployment", spec: { replicas: 3 } }, []],
    ["is empty and matches everything", {}, []],
    ["matches lists element by element", { status: { conditions: [{ type: "Available" }, { status: "True" }] } }, []],
    ["matches null if the field does not exist", { spec: { paused: null } }, []],
    ["differs in a value", { spec: { replicas: 4 } }, ["spec.replicas"]],
    ["differs in the type of a value", { spec: { replicas: "3" } }, ["spec.replicas"]],
    ["differs by a field that does not exist", { status: { phase: "Ready" } }, ["status.phase"]],
    ["differs by a field that must not exist", { spec: { replicas: null } }, ["spec.replicas"]],
    ["differs in the length of a list", { spec: { ports: [80] } }, ["spec.ports.length"]],
    ["differs in an element of a list", { spec: { ports: [80, 8443] } }, ["spec.ports[1]"]],
    ["quotes unusual names", { metadata: { labels: { "example.com/tier": "back" } } }, ['metadata.labels["example.com/tier"]']],
    ["differs in several fields", { kind: "Pod", spec: { replicas: 1 } }, ["kind", "spec.replicas"]],
  ])("%s", (_, expected, paths) => {
    expect(partialDifferences(expected, web).map(({ path }) => path)).toEqual(paths);
  });

  it("matches the object that it was taken from, whatever it contains", () => {
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        expect(partialDifferences({ value }, JSON.parse(JSON.stringify({ value, more: 1 })))).toEqual([]);
      }),
    );
  });

  it("shows a diff of expected and actual values", () => {
    expect(formatDifferences(partialDifferences({ spec: { replicas: 4, paused: true } }, web))).toBe(
      "- spec.replicas: 4\n+ spec.replicas: 3\n- spec.paused: true\n+ spec.paused: absent",
    );
    expect(checkAssertion({ matches: { spec: { replicas: 4 } } }, web, {})).toMatchObject({
      passed: false,
      expected: "4",
      actual: "3",
      message: "spec.replicas is 3, not 4",
    });
    expect(checkAssertion({ matches: {} }, undefined, {})).toMatchObject({ passed: false, actual: "absent" });
  });
});

describe("a JSONPath comparison", () => {
  it.each<[JsonPathAssertion, boolean]>([
    [{ path: ".spec.replicas", value: 3 }, true],
    [{ path: "spec.replicas", value: 3 }, true],
    [{ path: "{.spec.replicas}", operator: "NotEquals", value: 3 }, false],
    [{ path: ".spec.replicas", operator: "GreaterThan", value: 2 }, true],
    [{ path: ".spec.replicas", operator: "GreaterThan", value: 3 }, false],
    [{ path: ".spec.replicas", operator: "GreaterThanOrEqual", value: 3 }, true],
    [{ path: ".spec.replicas", operator: "LessThan", value: 4 }, true],
    [{ path: ".spec.resources.cpu", operator: "LessThanOrEqual", value: "0.5" }, true],
    [{ path: ".spec.resources.cpu", operator: "LessThan", value: "200m" }, false],
    [{ path: ".metadata.name", operator: "Matches", value: "^w.b$" }, true],
    [{ path: ".metadata.name", operator: "NotMatches", value: "^w" }, false],
    [{ path: ".spec.paused" }, false],
    [{ path: ".spec.replicas" }, true],
    [{ path: ".spec.paused", operator: "Absent" }, true],
    [{ path: ".spec.replicas", operator: "Absent" }, false],
    [{ path: ".spec.paused", operator: "NotEquals", value: true }, false],
    [{ path: ".status.conditions[*].status", value: "True" }, true],
    [{ path: ".status.conditions[*].type", value: "Available" }, false],
    [{ path: '.status.conditions[?(@.type=="Available")].status', value: "True" }, true],
    [{ path: ".status.conditions[*]", count: true, value: 2 }, true],
    [{ path: ".status.conditions[*]", count: true, operator: "GreaterThan", value: 2 }, false],
    [{ path: ".status.nothing[*]", count: true, value: 0 }, true],
    [{ path: ".spec", operator: "GreaterThan", value: 1 }, false],
  ])("%o is %s", (assertion, passed) => {
    expect(validateJsonPath(assertion)).toBeUndefined();
    expect(checkJsonPath(assertion, web).passed).toBe(passed);
  });

  it.each<[JsonPathAssertion, RegExp]>([
    [{ path: ".a[" }, /^path: /],
    [{ path: ".a", operator: "Equals" }, /^value: required by the operator Equals/],
    [{ path: ".a", operator: "Absent", value: 1 }, /^value: must not be set/],
    [{ path: ".a", operator: "Matches", value: "(" }, /^value: /],
  ])("%o is invalid", (assertion, message) => {
    expect(validateJsonPath(assertion)).toMatch(message);
  });

  it.each<JsonPathAssertion>([
    { path: ".status.error", operator: "Absent" },
    { path: ".status.errors[*]", count: true, value: 0 },
  ])("does not hold for an object that does not exist: %j", (jsonPath) => {
    expect(checkAssertion({ jsonPath }, web, {}).passed).toBe(true);
    expect(checkAssertion({ jsonPath }, undefined, {})).toMatchObject({
      passed: false,
      message: "the object does not exist",
    });
  });

  it("counts a null alongside other values as a value that differs", () => {
    const states = { states: [{ ready: true }, { ready: null }] };
    expect(checkJsonPath({ path: ".states[*].ready", value: true }, states)).toMatchObject({
      passed: false,
      actual: "true, null",
    });
    expect(checkJsonPath({ path: ".states[1].ready", operator: "NotEquals", value: true }, states).passed).toBe(false);
    expect(checkJsonPath({ path: ".states[*].ready", count: true, value: 1 }, states).passed).toBe(true);
  });

  it("names the path, the expected and the actual value", () => {
    expect(checkAssertion({ jsonPath: { path: ".spec.replicas", operator: "LessThan", value: 3 } }, web, {})).toMatchObject({
      message: "is 3, expected LessThan 3",
      expected: "LessThan 3",
      actual: "3",
    });
  });
});

describe("a CEL expression", () => {
  it.each<[string, boolean]>([
    ["object.spec.replicas == 3", true],
    ["object.spec.replicas > object.status.readyReplicas", true],
    ["object.status.conditions.exists(c, c.type == 'Available' && c.status == 'True')", true],
    ["object.metadata.name.matches('^x')", false],
    ["has(object.spec.paused)", false],
    ["objects.size() == 1", true],
    ["object.spec.paused", false],
    ["object.spec.replicas", false],
  ])("%s is %s", (cel, passed) => {
    expect(checkAssertion({ cel }, web, { objects: [web] }).passed).toBe(passed);
  });

  it.each([
    ["objects.all(each, each.status.ok)", false],
    ["!objects.exists(each, each.status.failed)", false],
    ["objects.size() == 0 || objects.all(each, each.status.ok)", true],
    ["objects.filter(each, each.status.failed).size() == 0", true],
    ["objects.map(each, each.metadata.name) == []", true],
    ["object == null && objects.all(each, each.ok)", true],
  ])("does not hold because nothing is selected, unless it says so: %s", (cel, passed) => {
    expect(checkAssertion({ cel }, undefined, { objects: [] }).passed).toBe(passed);
  });

  it("sees null for an object that does not exist", () => {
    expect(checkAssertion({ cel: "object == null" }, undefined, { objects: [] }).passed).toBe(true);
  });

  it("says why it fails", () => {
    expect(checkAssertion({ cel: "object.spec.replicas" }, web, {}).message).toMatch(/is 3, but must be true or false/);
    expect(checkAssertion({ cel: "object.spec.nothing == 1" }, web, {}).message).toMatch(/No such key: nothing/);
    expect(checkAssertion({ name: "none", cel: "objects.size() == 0" }, web, { objects: [web] }).message).toBe(
      "objects.size() == 0 is false",
    );
    expect(validateCel("object.", ["object"], "bool")).toMatch(/compilation failed/);
    expect(validateCel("objekt == 1", ["object"], "bool")).toMatch(/undeclared reference to 'objekt'/);
    expect(validateCel("'text'", [], "bool")).toMatch(/must evaluate to bool/);
  });

  it("returns JSON", () => {
    expect(evaluateCel("{'a': [1, 2.5, 'x', true, null]}", {})).toEqual({
      kind: "value",
      value: { a: [1, 2.5, "x", true, null] },
    });
  });
});

it("is named by its name, function, expression or path", () => {
  expect(
    [{ name: "n", cel: "x" }, { function: "F" }, { cel: "x" }, { jsonPath: { path: ".a" } }, { matches: {} }].map(
      expectationName,
    ),
  ).toEqual(["n", "F", "x", ".a", "matches"]);
});

describe("an object that cannot make progress", () => {
  const waiting = (reason: string) => ({ containerStatuses: [{ name: "main", state: { waiting: { reason } } }] });
  const pod = (status: object) => ({ apiVersion: "v1", kind: "Pod", metadata: { name: "p" }, status: { ...status } });
  const conditions = (type: string, status: string, reason: string) => ({ conditions: [{ type, status, reason }] });
  it.each<[string, Record<string, unknown>, Record<string, unknown>[] | undefined, RegExp | undefined]>([
    ["a Pod with an image error", pod(waiting("ImagePullBackOff")), undefined, /cannot start: ImagePullBackOff/],
    ["a Pod in a crash loop", pod(waiting("CrashLoopBackOff")), undefined, /crash-looping/],
    ["a failed Pod", pod({ phase: "Failed", reason: "Evicted" }), undefined, /Evicted/],
    ["a running Pod", pod({ phase: "Running" }), undefined, undefined],
    ["a Deployment whose Pod crash-loops", web, [pod(waiting("CrashLoopBackOff"))], /crash-looping/],
    ["a Deployment whose Pods are not known", web, undefined, undefined],
    [
      "a Deployment after its deadline",
      { ...web, status: conditions("Progressing", "False", "ProgressDeadlineExceeded") },
      [],
      /the rollout failed/,
    ],
    [
      "a failed Job",
      { apiVersion: "batch/v1", kind: "Job", status: conditions("Failed", "True", "DeadlineExceeded") },
      [],
      /DeadlineExceeded/,
    ],
    ["a lost claim", { apiVersion: "v1", kind: "PersistentVolumeClaim", status: { phase: "Lost" } }, [], /lost/],
    [
      "a definition whose names conflict",
      {
        apiVersion: "apiextensions.k8s.io/v1",
        kind: "CustomResourceDefinition",
        status: conditions("NamesAccepted", "False", "Conflict"),
      },
      [],
      /Conflict/,
    ],
    [
      "a kind of the same name in another group",
      { apiVersion: "example.com/v1", kind: "Job", status: conditions("Failed", "True", "x") },
      [],
      undefined,
    ],
  ])("is recognized: %s", (_, object, pods, message) => {
    if (message === undefined) expect(terminalState(object, pods)).toBeUndefined();
    else expect(terminalState(object, pods)).toMatch(message);
  });
});
