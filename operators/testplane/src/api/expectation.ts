import { type Schema, typedSchema } from "@keelson/api-machinery/schema";
import { duration } from "@keelson/api-machinery/fields";
import { type JsonPathAssertion, jsonPathOperators } from "../assertions/json-path-assertion.ts";
import { extractorNames } from "../functions/registry.ts";

/**
 * A check on an object (TestPlane's Expectation): exactly one of a built-in function or webhook, a partial object, a CEL expression, and a
 * JSONPath comparison.
 */
export interface Expectation {
  /** Name in results. Default: the function, the expression or the path. */
  name?: string;
  /** A built-in function. With a webhook: the name passed to the webhook. */
  function?: string;
  webhook?: string;
  params?: Record<string, unknown>;
  /** A partial object that the object must match. */
  matches?: Record<string, unknown>;
  /** A CEL expression that must be true. */
  cel?: string;
  jsonPath?: JsonPathAssertion;
}

/** Checks that must hold: all of `allOf`, and at least one of `anyOf` if it is not empty (TestPlane's StepCondition). */
export interface StepCondition {
  /** Maximum seconds until the checks hold, from the start of the stage. Default: the remaining time of the step. */
  timeoutSeconds?: number;
  allOf?: Expectation[];
  anyOf?: Expectation[];
  /** How long the checks must keep holding once they hold, as a duration. */
  consistently?: string;
  /** Fails immediately if one of these holds. */
  failWhen?: Expectation[];
  /** Keeps waiting for an object that cannot make progress, such as a Deployment that crash-loops. */
  ignoreTerminalStates?: boolean;
}

/** Source of a value (TestPlane's Extractor). */
export interface Extractor {
  function: string;
  params?: Record<string, unknown>;
}

const params: Schema = {
  type: "object",
  "x-kubernetes-preserve-unknown-fields": true,
  description: "Parameters of the function.",
};

const expectation: Schema = {
  type: "object",
  properties: {
    name: {
      type: "string",
      maxLength: 253,
      description: "Name in results. Default: the function, the expression or the path.",
    },
    function: {
      type: "string",
      minLength: 1,
      maxLength: 256,
      description:
        "A built-in function, validated when the test starts. With webhook: the name of the check, passed to the webhook.",
    },
    webhook: {
      type: "string",
      maxLength: 2048,
      pattern: "^https?://[^\\s/]+.*$",
      description: "URL that receives {function, params, state} by POST and responds with {passed, message}.",
    },
    params,
    matches: {
      type: "object",
      "x-kubernetes-preserve-unknown-fields": true,
      description:
        "A partial object: every field must exist and match. A list must match element by element; null means that the field must not exist.",
    },
    cel: {
      type: "string",
      minLength: 1,
      maxLength: 8192,
      description:
        "A CEL expression that must be true. `object` is the object or null, `objects` is the list of all selected objects.",
    },
    jsonPath: {
      type: "object",
      required: ["path"],
      description: "A comparison of the values at a path. All of them must satisfy it, and at least one must exist.",
      properties: {
        path: { type: "string", minLength: 1, maxLength: 1024, description: "A JSONPath such as .status.conditions[*].type." },
        operator: {
          type: "string",
          enum: [...jsonPathOperators],
          description: "The comparison. Default: Equals with a value, otherwise Exists.",
        },
        value: {
          "x-kubernetes-preserve-unknown-fields": true,
          description: "The value to compare with. Matches takes a regular expression (RE2).",
        },
        count: { type: "boolean", description: "Compares the number of values at the path instead of the values." },
      },
    },
  },
};

/** Schemas of the lists of checks that every condition has. */
export const checkLists: Readonly<Record<"allOf" | "anyOf", Schema>> = {
  allOf: { type: "array", maxItems: 1000, items: expectation, description: "All of these must hold." },
  anyOf: {
    type: "array",
    maxItems: 1000,
    items: expectation,
    description: "At least one of these must hold, if the list is not empty.",
  },
};

const durationSchema = (description: string): Schema => duration(description) as unknown as Schema;

const outcomeFields: Readonly<Record<"consistently" | "failWhen" | "ignoreTerminalStates", Schema>> = {
  consistently: durationSchema(
    "How long the checks must keep holding once they hold. The step fails if they stop holding before.",
  ),
  failWhen: {
    type: "array",
    maxItems: 100,
    items: expectation,
    description: "Fails the step immediately if one of these holds.",
  },
  ignoreTerminalStates: {
    type: "boolean",
    description:
      "Keeps waiting for an object that cannot make progress, such as a Deployment that crash-loops. By default the step fails immediately.",
  },
};

/** Schema of a {@link StepCondition}. */
export const stepCondition = (description: string) => conditionSchema(description, outcomeFields);

/** Schema of a {@link StepCondition} that only has to hold once. */
export const simpleCondition = (description: string) => conditionSchema(description, {});

function conditionSchema(description: string, more: Readonly<Record<string, Schema>>) {
  return typedSchema<StepCondition>({
    type: "object",
    description,
    properties: {
      timeoutSeconds: {
        type: "integer",
        format: "int32",
        minimum: 0,
        description:
          "Maximum seconds until the checks hold, from the start of the stage. 0 means the remaining time of the step.",
      },
      ...checkLists,
      ...more,
    },
  });
}

/** Schema of an {@link Extractor}. */
export const extractor = typedSchema<Extractor>({
  type: "object",
  required: ["function"],
  description: "Source of the value.",
  properties: {
    function: { type: "string", enum: [...extractorNames], description: "A built-in function that returns a value." },
    params,
  },
});

/** Result of one check in a status. */
export interface ExpectationResult {
  expect: string;
  passed: boolean;
  actual?: string;
  message?: string;
  expected?: string;
  diff?: string;
  since?: string;
}

const resultSchema: Schema = {
  type: "object",
  required: ["expect", "passed"],
  properties: {
    expect: { type: "string", description: "Name of the function." },
    passed: { type: "boolean", description: "Whether the check held." },
    actual: { type: "string", description: "Observed value, truncated to 1024 characters." },
    message: { type: "string", description: "Why the check did not hold, truncated to 1024 characters." },
    expected: { type: "string", description: "Expected value of a check that did not hold, truncated to 1024 characters." },
    diff: {
      type: "string",
      description: "Fields that differ, as lines `- path: expected` and `+ path: actual`, truncated to 4096 characters.",
    },
    since: { type: "string", format: "date-time", description: "Since when the check has not held with this actual value." },
  },
};

/** Schema of a list of {@link ExpectationResult}. */
export function results(description: string) {
  return typedSchema<ExpectationResult[]>({
    type: "array",
    items: resultSchema,
    description,
    "x-kubernetes-list-type": "atomic",
  });
}

/** Progress of a condition in a status (TestPlane's ReadyConditionStatus). */
export interface ReadyConditionStatus {
  state?: "Pending" | "Running" | "Passed" | "Failed";
  startedAt?: string;
  deadline?: string;
  finishedAt?: string;
  holdsSince?: string;
  results?: ExpectationResult[];
}

/** Schema of a {@link ReadyConditionStatus}. */
export function conditionStatus(description: string) {
  const timestamp: Schema = { type: "string", format: "date-time" };
  return typedSchema<ReadyConditionStatus>({
    type: "object",
    description,
    properties: {
      state: { type: "string", enum: ["Pending", "Running", "Passed", "Failed"], description: "State of the condition." },
      startedAt: { ...timestamp, description: "When it started." },
      deadline: { ...timestamp, description: "When it times out." },
      finishedAt: { ...timestamp, description: "When it finished." },
      holdsSince: { ...timestamp, description: "Since when the checks hold that must hold consistently." },
      results: {
        type: "array",
        items: resultSchema,
        "x-kubernetes-list-type": "atomic",
        description: "Latest result of each check.",
      },
    },
  });
}
