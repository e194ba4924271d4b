import { describe, expect, it } from "vitest";
import { findMistakes } from "./find-mistakes.ts";

const good = `
apiVersion: infra.testplane.io/v1alpha1
kind: IntegrationTest
metadata: { name: good }
spec:
  steps:
    - name: make
      resource: { manifest: { apiVersion: v1, kind: ConfigMap, metadata: { name: made }, data: { a: b } } }
      expectations:
        timeoutSeconds: 5
        allOf: [{ function: ResourceExists }]
`;
const find = (content: string) =>
  findMistakes({ source: "t.yaml", content }, "default").mistakes.map(
    ({ line, column, message }) => `${line}:${column} ${message}`,
  );

describe("the mistakes of a file", () => {
  it("are none in a valid test, and other objects are ignored", () => {
    expect(findMistakes({ source: "t.yaml", content: `apiVersion: v1\nkind: Pod\nspec: 7\n---${good}` }, "default")).toEqual({
      mistakes: [],
      tests: 1,
    });
  });

  it.each<[string, string, string, RegExp]>([
    [
      "an unknown field",
      "timeoutSeconds: 5",
      "timeoutSecond: 5",
      /^10:9 .*timeoutSecond: unknown field; did you mean timeoutSeconds\?$/,
    ],
    [
      "a value of the wrong type",
      "timeoutSeconds: 5",
      "timeoutSeconds: five",
      /^10:9 .*timeoutSeconds: Invalid value: "string".*integer/,
    ],
    [
      "an unknown function",
      "ResourceExists",
      "ResourceExist",
      /^11:19 .*allOf\[0\]\.function: .*did you mean ResourceExists\?$/,
    ],
    ["a missing name", "metadata: { name: good }", "metadata: {}", /^4:1 metadata\.name: required$/],
    ["a missing field", "    - name: make\n      resource", "    - resource", /^7:7 spec\.steps\[0\]\.name: Required value$/],
    ["a manifest of another namespace", "name: made", "name: made, namespace: other", /^8:88 .*namespace: must be default/],
    ["invalid YAML", "metadata: { name: good }", "metadata: { name: good", /^\d+:\d+ /],
  ])("have line and column: %s", (_, from, to, expected) => {
    expect(good).toContain(from);
    expect(find(good.replace(from, to)).join("\n")).toMatch(new RegExp(expected.source, "m"));
  });

  it("are all reported, in order, also in later documents and Lists", () => {
    const list = `
---
apiVersion: v1
kind: List
items:
  - apiVersion: infra.testplane.io/v1alpha1
    kind: LoadTest
    metadata: { name: l }
    spec:
      target: { resource: { selector: { apiVersion: v1, kind: Pod, name: x } } }
      workload: { resources: [] }
      durationSecond: 4
`;
    expect(find(good.replace("ResourceExists", "X").replace("name: made", "labels: {}") + list)).toEqual([
      expect.stringMatching(/^8:\d+ spec\.steps\[0\]\.resource\.manifest\.metadata\.name: required/),
      expect.stringMatching(/^11:19 .*unknown function "X"/),
      "23:7 spec.durationSecond: unknown field; did you mean durationSeconds?",
    ]);
  });
});
