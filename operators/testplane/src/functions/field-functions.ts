import { jsonEquals } from "@keelson/api-machinery";
import { parseJsonPath } from "@keelson/api-machinery/selectors";
import { type CheckFunction, type ExtractorFunction, fail, type Params, pass, type Resource } from "./function.ts";
import { conditionOf, stringAt, textOf } from "./read.ts";

/** The first value at `params.path` (`a.b`, `.a.b`, `.a[0]['b.c']`). */
function fieldOf(resource: Resource, params: Params): unknown {
  const path = String(params["path"]);
  return parseJsonPath(path.startsWith(".") || path.startsWith("$") || path.startsWith("{") ? path : `.${path}`)(
    resource ?? {},
  )[0];
}

const path = { type: "string", required: true } as const;

/** Extracts any field: strings verbatim, everything else as JSON. */
export const fieldExtractor: ExtractorFunction = {
  name: "FieldPath",
  params: { path },
  extract: (resource, params) => {
    const value = fieldOf(resource, params);
    return value === undefined || value === null ? undefined : textOf(value);
  },
};

/** Checks for any kind that the original TestPlane does not have. */
export const fieldFunctions: readonly CheckFunction[] = [
  {
    name: "FieldEquals",
    params: { path, value: { type: "any", required: true } },
    isGeneric: true,
    check: (resource, params) => {
      const actual = fieldOf(resource, params);
      if (jsonEquals(actual, params["value"])) return pass(textOf(actual));
      const shown = actual === undefined ? "absent" : textOf(actual);
      const expected = textOf(params["value"]);
      return { ...fail(`${String(params["path"])} is ${shown}, not ${expected}`, shown), expected };
    },
  },
  {
    name: "ConditionTrue",
    params: { type: { type: "string", required: true } },
    isGeneric: true,
    check: (resource, params) => {
      const condition = conditionOf(resource, String(params["type"]));
      const status = stringAt(condition, "status") || "absent";
      if (status === "True") return pass(status);
      const why = [stringAt(condition, "reason"), stringAt(condition, "message")].filter((each) => each !== "").join(": ");
      return {
        ...fail(`condition ${String(params["type"])} is ${status}${why === "" ? "" : ` (${why})`}`, status),
        expected: "True",
      };
    },
  },
];
