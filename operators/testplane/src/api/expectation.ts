import { type Schema, typedSchema } from "@keelson/api-machinery/schema";
import { checkNames, extractorNames } from "../functions/registry.ts";

/** A check on an object (Expectation of TestPlane): a built-in function, or a webhook that is asked. */
export interface Expectation {
  /** A built-in function; with a webhook, the name that the webhook is given. */
  function: string;
  webhook?: string;
  params?: Record<string, unknown>;
}

/** Checks that have to hold: all of `allOf`, and one of `anyOf` where there are any (StepCondition of TestPlane). */
export interface StepCondition {
  /** How long they may take to hold, from the start of the stage. Default: what the step has left. */
  timeoutSeconds?: number;
  allOf?: Expectation[];
  anyOf?: Expectation[];
}

/** Where a value comes from (Extractor of TestPlane). */
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
      description: "A built-in function, or, with webhook, the name of the check that the webhook is asked for.",
    },
    webhook: {
      type: "string",
      maxLength: 2048,
      pattern: "^https?://[^\\s/]+.*$",
      description: "URL that is asked by POST with {function, params, state}; it answers {passed, message}.",
    },
    params,
  },
  anyOf: [{ required: ["webhook"] }, { properties: { function: { enum: [...checkNames] } } }],
};

/** The lists of checks, as every condition has them. */
export const checkLists: Readonly<Record<"allOf" | "anyOf", Schema>> = {
  allOf: { type: "array", maxItems: 1000, items: expectation, description: "All of these have to hold." },
  anyOf: { type: "array", maxItems: 1000, items: expectation, description: "One of these has to hold, where there are any." },
};

/** A {@link StepCondition} in a schema. */
export function stepCondition(description: string) {
  return typedSchema<StepCondition>({
    type: "object",
    description,
    properties: {
      timeoutSeconds: {
        type: "integer",
        format: "int32",
        minimum: 0,
        description: "Seconds that the checks may take to hold, from the start of their stage; 0: what the step has left.",
      },
      ...checkLists,
    },
  });
}

/** An {@link Extractor} in a schema. */
export const extractor = typedSchema<Extractor>({
  type: "object",
  required: ["function"],
  description: "Where the value comes from.",
  properties: {
    function: { type: "string", enum: [...extractorNames], description: "A built-in function that answers a value." },
    params,
  },
});

/** Outcome of one check, as statuses have it. */
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
    expect: { type: "string", description: "The function." },
    passed: { type: "boolean", description: "Whether it held." },
    actual: { type: "string", description: "What was seen, cut to 256 characters." },
    message: { type: "string", description: "Why it did not hold, cut to 256 characters." },
  },
};

/** A list of {@link ExpectationResult} in a schema. */
export function results(description: string) {
  return typedSchema<ExpectationResult[]>({
    type: "array",
    items: resultSchema,
    description,
    "x-kubernetes-list-type": "atomic",
  });
}

/** How a condition goes, as statuses have it (ReadyConditionStatus of TestPlane). */
export interface ReadyConditionStatus {
  state?: "Pending" | "Running" | "Passed" | "Failed";
  startedAt?: string;
  deadline?: string;
  finishedAt?: string;
  results?: ExpectationResult[];
}

/** A {@link ReadyConditionStatus} in a schema. */
export function conditionStatus(description: string) {
  const moment: Schema = { type: "string", format: "date-time" };
  return typedSchema<ReadyConditionStatus>({
    type: "object",
    description,
    properties: {
      state: { type: "string", enum: ["Pending", "Running", "Passed", "Failed"], description: "How far it is." },
      startedAt: { ...moment, description: "When it began." },
      deadline: { ...moment, description: "When it has failed at the latest." },
      finishedAt: { ...moment, description: "When it ended." },
      results: {
        type: "array",
        items: resultSchema,
        "x-kubernetes-list-type": "atomic",
        description: "The last outcome of each check.",
      },
    },
  });
}
