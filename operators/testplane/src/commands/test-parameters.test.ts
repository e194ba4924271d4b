import { expect, test } from "vitest";
import { parseTests, type TestManifest } from "./test-files.ts";
import { withParameters } from "./test-parameters.ts";

const { tests } = parseTests(
  `
apiVersion: infra.testplane.io/v1alpha1
kind: IntegrationTest
metadata: { name: a }
spec:
  parameters: [{ name: image }, { name: replicas, type: integer, default: 1 }]
  parameterValues: { image: old }
---
apiVersion: infra.testplane.io/v1alpha1
kind: IntegrationTest
metadata: { name: b }
spec: { steps: [] }
---
apiVersion: infra.testplane.io/v1alpha1
kind: LoadTest
metadata: { name: c }
`,
  "tests.yaml",
);
const valuesOf = (param: readonly string[], manifests: readonly TestManifest[] = tests): unknown[] =>
  withParameters(manifests, { param }).map(({ spec }) => (spec as { parameterValues?: unknown } | undefined)?.parameterValues);

test("sets parameters in the tests that declare them, and leaves the others alone", () => {
  expect(valuesOf(["image=a=b", "replicas=3"])).toMatchObject([{ image: "a=b", replicas: 3 }, undefined, undefined]);
  expect(valuesOf([])).toEqual([{ image: "old" }, undefined, undefined]);
});

test("rejects a parameter that no test declares, and a value that is not JSON", () => {
  expect(() => valuesOf(["size=1"])).toThrow("--param: size: unknown parameter: must be one of image, replicas");
  expect(() => valuesOf(["size=1"], tests.slice(1))).toThrow("--param: size: unknown parameter: no test has parameters");
  expect(() => valuesOf(["replicas=many"])).toThrow('--param: invalid value "replicas=many": must be of type integer, as JSON');
});
