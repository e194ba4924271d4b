import { maxCauses } from "@keelson/api-machinery/validation";
import { expect, test } from "vitest";
import { resourceCauses } from "./resource-validation.ts";
import { collectCauses } from "../../../causes.ts";

test("reads each amount once, and reports no more causes than an error has", () => {
  let reads = 0;
  const amounts = (count: number, value: string): Record<string, string> => {
    const result: Record<string, string> = {};
    for (let index = 0; index < count; index++) {
      Object.defineProperty(result, `example.com/r${index}`, { enumerable: true, get: () => (reads++, value) });
    }
    return result;
  };
  expect(collectCauses(resourceCauses({ limits: amounts(500, "1"), requests: amounts(500, "1") }, "r"))).toEqual([]);
  expect(reads).toBe(1_000);
  const causes = collectCauses(resourceCauses({ limits: amounts(5_000, "-0.5"), requests: amounts(5_000, "2") }, "r"));
  expect(causes.slice(0, 3).map(({ message }) => message)).toEqual([
    'Invalid value: "-0.5": must be greater than or equal to 0',
    'Invalid value: "-0.5": must be an integer',
    'Invalid value: "-0.5": must be greater than or equal to 0',
  ]);
  expect(causes.length).toBeLessThanOrEqual(3 * maxCauses);
});
