import { expect, it } from "vitest";
import { successPolicyCauses } from "./success-policy-validation.ts";
import { collectCauses } from "../../causes.ts";

function faults(rule: { readonly succeededIndexes?: string; readonly succeededCount?: number }): string[] {
  const spec = { completionMode: "Indexed", completions: 5, successPolicy: { rules: [rule] } };
  return collectCauses(successPolicyCauses(spec, "p")).map(({ field, message }) => `${field}: ${message}`);
}

it("accepts ascending indexes, and a count of them", () => {
  expect(faults({ succeededIndexes: "0,2-4", succeededCount: 4 })).toEqual([]);
});

it.each([
  ["x", 'cannot convert string to integer for index: "x"'],
  ["5", 'too large index: "5"'],
  ["3,1", "non-increasing order, previous: 3, current: 1"],
  ["2-2", "non-increasing order, previous: 2, current: 2"],
  ["0-1-2", `the fragment "0-1-2" violates the requirement that an index interval can have at most two parts separated by '-'`],
])("rejects the indexes %s", (succeededIndexes, why) => {
  expect(faults({ succeededIndexes })).toEqual([
    `p.rules[0].succeededIndexes: Invalid value: "${succeededIndexes}": error parsing succeededIndexes: ${why}`,
  ]);
});

it("rejects a count above the completions or the indexes, and a rule without either", () => {
  expect(faults({ succeededIndexes: "0", succeededCount: 6 })).toEqual([
    "p.rules[0].succeededCount: Invalid value: 6: must be less than or equal to 5 (the number of specified completions)",
    "p.rules[0].succeededCount: Invalid value: 6: must be less than or equal to 1 (the number of indexes in the specified succeededIndexes field)",
  ]);
  expect(faults({})).toEqual([
    "p.rules[0]: Required value: at least one of succeededCount or succeededIndexes must be specified",
  ]);
});

it("requires the Indexed mode, and shows kube-apiserver's internal type", () => {
  const spec = { completionMode: "NonIndexed", successPolicy: { rules: [{ succeededCount: 1 }] } };
  expect(collectCauses(successPolicyCauses(spec, "p")).map(({ message }) => message)).toEqual([
    'Invalid value: {"Rules":[{"SucceededIndexes":null,"SucceededCount":1}]}: requires indexed completion mode',
  ]);
});
