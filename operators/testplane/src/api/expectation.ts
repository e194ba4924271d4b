import { type Schema, typedSchema } from "@keelson/api-machinery/schema";
import { extractorNames } from "../functions/registry.ts";

/** A check on an object (TestPlane's Expectation): a built-in function or a webhook. */
export interface Expectation {
  /** A built-in function. With a webhook: the name passed to the webhook. */
  function: string;
  webhook?: string;
  params?: Record<string, unknown>;
}

/** Checks that must hold: all of `allOf`, and at least one of `anyOf` if it is not empty (TestPlane's StepCondition). */
export interface StepCondition {
  /** Maximum seconds until the checks hold, from the start of the stage. Default: the remaining time of the step. */
  timeoutSeconds?: number;
  allOf?: Expectation[];
  anyOf?: Expectation[];
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
  required: ["function"],
  properties: {
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

/** Schema of a {@link StepCondition}. */
export function stepCondition(description: string) {
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
}

const resultSchema: Schema = {
  type: "object",
  required: ["expect", "passed"],
  properties: {
    expect: { type: "string", description: "Name of the function." },
    passed: { type: "boolean", description: "Whether the check held." },
    actual: { type: "string", description: "Observed value, truncated to 1024 characters." },
    message: { type: "string", description: "Why the check did not hold, truncated to 1024 characters." },
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
      results: {
        type: "array",
        items: resultSchema,
        "x-kubernetes-list-type": "atomic",
        description: "Latest result of each check.",
      },
    },
  });
}
