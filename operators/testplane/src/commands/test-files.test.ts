import { expect, test } from "vitest";
import { parseTests } from "./test-files.ts";

test("expands merge keys and aliases, as kubectl does", () => {
  const { tests } = parseTests(
    `
apiVersion: infra.testplane.io/v1alpha1
kind: IntegrationTest
metadata: { name: merged }
spec:
  mode: Parallel
  steps:
    - &first { name: one, sleep: 1s }
    - { <<: *first, name: two }
`,
    "test.yaml",
  );
  expect(tests[0]?.spec).toMatchObject({
    steps: [
      { name: "one", sleep: "1s" },
      { name: "two", sleep: "1s" },
    ],
  });
});

test("names the file of a merge key without a map", () => {
  expect(() => parseTests("kind: List\n<<: 5\n", "bad.yaml")).toThrow(/^bad\.yaml, document 1: /);
});
