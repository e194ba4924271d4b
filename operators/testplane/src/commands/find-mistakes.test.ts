import type { Schema } from "@keelson/api-machinery/schema";
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

  it("are all reported, in order, including in later documents and Lists", () => {
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

const known = `
apiVersion: infra.testplane.io/v1alpha1
kind: IntegrationTest
metadata: { name: known }
spec:
  steps:
    - name: make
      apply:
        manifests:
          - apiVersion: apps/v1
            kind: Deployment
            metadata: { name: web, labels: { app.kubernetes.io/name: web } }
            spec:
              replicas: 2
              paused: null
              template:
                spec:
                  containers:
                    - name: web
                      ports: [{ containerPort: 80 }]
                      resources: { limits: { cpu: 0.5, memory: 1Gi, example.com/gpu: 1 } }
          - apiVersion: example.com/v1
            kind: Deployment
            metadata: { name: other }
            spec: { replicas: any }
`;

const string = { type: "string" } as const;
const deployment: Schema = {
  type: "object",
  required: ["spec"],
  properties: {
    apiVersion: string,
    kind: string,
    metadata: {
      type: "object",
      properties: { name: string, namespace: string, labels: { type: "object", additionalProperties: string } },
    },
    spec: {
      type: "object",
      required: ["selector"],
      properties: {
        replicas: { type: "integer", format: "int32" },
        paused: { type: "boolean" },
        template: {
          type: "object",
          properties: {
            spec: {
              type: "object",
              properties: {
                containers: {
                  type: "array",
                  items: {
                    type: "object",
                    properties: {
                      name: string,
                      image: string,
                      ports: {
                        type: "array",
                        items: { type: "object", properties: { containerPort: { type: "integer", format: "int32" } } },
                      },
                      resources: {
                        type: "object",
                        properties: {
                          limits: { type: "object", additionalProperties: { type: "string", format: "quantity" } },
                        },
                      },
                    },
                  },
                },
              },
            },
          },
        },
      },
    },
  },
};

const findKnown = (content: string) =>
  findMistakes({ source: "t.yaml", content }, "default", (group, version, kind) =>
    group === "apps" && version === "v1" && kind === "Deployment" ? deployment : undefined,
  ).mistakes.map(({ line, column, message }) => `${line}:${column} ${message}`);
const manifest = "spec.steps[0].apply.manifests[0]";

describe("the mistakes in manifests of known kinds", () => {
  it("are none for nulls, quantities that are numbers, missing fields and other kinds", () => {
    expect(findKnown(known)).toEqual([]);
  });

  it("are none for texts that an expression replaces", () => {
    expect(findKnown(known.replace("replicas: 2", 'replicas: "${{ params.size }}"'))).toEqual([]);
    expect(findKnown(known.replace("cpu: 0.5", 'cpu: "${{ params.cpu }}"'))).toEqual([]);
  });

  it("are none in a step that expects the rejection, but in its cleanup", () => {
    const rejected = known
      .replace("replicas: 2", "replicas: two")
      .replace("      apply:", "      expectError: {}\n      apply:");
    expect(findKnown(rejected)).toEqual([]);
    const cleanup =
      "      cleanup: [{ name: c, create: { manifests: [{ apiVersion: apps/v1, kind: Deployment, metadata: { name: a }, spec: 1 }] } }]\n";
    expect(findKnown(rejected + cleanup)).toEqual([expect.stringContaining("cleanup[0].create.manifests[0].spec: ")]);
  });

  it.each<[string, string, string, string]>([
    [
      "a value of the wrong type",
      "replicas: 2",
      "replicas: two",
      `14:15 ${manifest}.spec.replicas: Invalid value: "string": spec.replicas in body must be of type integer: "string"`,
    ],
    ["an unknown field", "replicas: 2", "replcas: 2", `14:15 ${manifest}.spec.replcas: unknown field; did you mean replicas?`],
    [
      "an unknown field of a list item",
      "containerPort: 80",
      "containerport: 80",
      `20:33 ${manifest}.spec.template.spec.containers[0].ports[0].containerport: unknown field; did you mean containerPort?`,
    ],
    [
      "an unknown field of metadata",
      "name: web, labels",
      "name: web, lables",
      `12:36 ${manifest}.metadata.lables: unknown field; did you mean labels?`,
    ],
    [
      "an object in place of a list",
      "containers:\n                    - name: web",
      "containers:\n                      name: web",
      `18:19 ${manifest}.spec.template.spec.containers: Invalid value: "object": spec.template.spec.containers in body must be of type array: "object"`,
    ],
    [
      "a quantity under a name with dots",
      "example.com/gpu: 1",
      "example.com/gpu: one",
      `21:69 ${manifest}.spec.template.spec.containers[0].resources.limits.example.com/gpu: Invalid value: "one": must be a quantity such as 500m or 2Gi`,
    ],
  ])("have line and column: %s", (_, from, to, expected) => {
    expect(known).toContain(from);
    expect(findKnown(known.replace(from, to))).toEqual([expect.stringContaining(expected)]);
  });

  it("are found in every manifest of a test, also next to mistakes of the test itself", () => {
    const spec = "{ apiVersion: apps/v1, kind: Deployment, metadata: { name: a }, spec: { replicas: x } }";
    const steps = ["steps", "catch", "finally"].map(
      (list) =>
        `  ${list}: [{ name: a, cleanup: [{ name: b, resource: { manifest: ${spec} } }], create: { manifests: [{ apiVersion: v1, kind: List, items: [${spec}] }] } }]`,
    );
    const test = [
      "apiVersion: infra.testplane.io/v1alpha1",
      "kind: IntegrationTest",
      "metadata: { name: a }",
      "spec:",
      ...steps,
    ];
    const found = findKnown([...test, `  finalExpectations: [{ resource: { manifest: ${spec} } }]`, "  unknown: 1"].join("\n"));
    expect(found.filter((each) => each.includes(".spec.replicas: "))).toHaveLength(7);
    expect(found.at(-1)).toContain("spec.unknown: unknown field");
  });
});
