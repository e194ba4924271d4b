import { anyObject, choice, listMap } from "@keelson/api-machinery/fields";
import { Type } from "typebox";
import { LateStep } from "./test-step.ts";

/** A list of steps that run after the main ones. */
export const testSteps = (description: string) => Type.Array(LateStep, { ...listMap("name", description), maxItems: 100 });

const identifier = (description: string) => Type.String({ description, pattern: "^[A-Za-z_][A-Za-z0-9_]*$", maxLength: 63 });

/** Any JSON value. */
const anyValue = (description: string) => Type.Unsafe<unknown>({ "x-kubernetes-preserve-unknown-fields": true, description });

/** A typed parameter of a test. */
export const Parameter = Type.Object({
  name: identifier("Name of the parameter."),
  type: Type.Optional(
    choice(["string", "integer", "number", "boolean", "object", "array"], "Type of the value. Default: string."),
  ),
  description: Type.Optional(Type.String({ description: "What the parameter means." })),
  default: Type.Optional(anyValue("Value if neither the test nor its scenario sets one. Without it, a value is required.")),
});

/** A named value. */
export const Binding = Type.Object({
  name: identifier("Name of the value."),
  cel: Type.String({
    description: "A CEL expression that is evaluated at the start of each round.",
    minLength: 1,
    maxLength: 8192,
  }),
});

/** A set of parameter values. */
export const Scenario = Type.Object({
  name: Type.String({ description: "Name of the scenario.", minLength: 1, maxLength: 63 }),
  values: Type.Optional(anyObject("Values of parameters by name.")),
});
