import { int32, listMap } from "@keelson/api-machinery/fields";
import { Type, type Static } from "typebox";
import { simpleCondition, stepCondition } from "./expectation.ts";
import { resourceRef } from "./resource-ref.ts";
import { actions, expectError } from "./step-actions.ts";
import { clusterName } from "./test-cluster.ts";

const Output = Type.Object({
  name: Type.String({ description: "Name of the value.", pattern: "^[A-Za-z_][A-Za-z0-9_]*$", maxLength: 63 }),
  cel: Type.String({
    description: "A CEL expression. `object` and `objects` are those of the step's checks.",
    minLength: 1,
    maxLength: 8192,
  }),
});

/** A step that runs after the main ones. */
export const LateStep = Type.Object(
  {
    name: Type.String({ description: "Name of the step, unique within the list.", minLength: 1, maxLength: 253 }),
    cluster: Type.Optional(clusterName),
    ...actions,
    resource: Type.Optional(resourceRef),
    expectations: Type.Optional(simpleCondition("What must hold for the step to succeed.")),
    timeoutSeconds: Type.Optional(int32("Maximum seconds for the whole step. 0 means 600.", { minimum: 0 })),
  },
  { description: "A step that runs after the main ones." },
);

/** Schema of a {@link TestStep}. */
export const TestStep = Type.Object(
  {
    name: Type.String({ description: "Name of the step, unique within the test.", minLength: 1, maxLength: 253 }),
    cluster: Type.Optional(clusterName),
    ...actions,
    expectError: Type.Optional(expectError),
    needs: Type.Optional(
      Type.Array(Type.String(), {
        description:
          "Steps that must succeed before this one starts. In the mode Sequential, the default is the previous step.",
        maxItems: 100,
      }),
    ),
    retries: Type.Optional(int32("How often a failed step is repeated. Default: 0.", { minimum: 0, maximum: 100 })),
    outputs: Type.Optional(
      Type.Array(Output, {
        ...listMap("name", "Values that later steps read as outputs.NAME. They are evaluated when the step has succeeded."),
        maxItems: 50,
      }),
    ),
    catch: Type.Optional(
      Type.Array(LateStep, {
        ...listMap("name", "Steps that run once this step has failed after all of its attempts, before its finally steps."),
        maxItems: 50,
      }),
    ),
    finally: Type.Optional(
      Type.Array(LateStep, {
        ...listMap(
          "name",
          "Steps that run once this step has succeeded, failed or been stopped. Steps that need this one start after them.",
        ),
        maxItems: 50,
      }),
    ),
    cleanup: Type.Optional(
      Type.Array(LateStep, {
        ...listMap(
          "name",
          "Steps that run at the end of a round in which this step started. The cleanup of later steps runs first.",
        ),
        maxItems: 50,
      }),
    ),
    resource: Type.Optional(resourceRef),
    readyCondition: Type.Optional(stepCondition("What must hold before the expectations are checked.")),
    expectations: Type.Optional(stepCondition("What must hold for the step to succeed.")),
    timeoutSeconds: Type.Optional(
      int32("Maximum seconds for the whole step, from apply to expectations. 0 means 600.", { minimum: 0 }),
    ),
    maxTimeToReadySeconds: Type.Optional(
      Type.Number({
        description:
          "Maximum seconds from apply until the ready condition holds. The step fails with the reason TooSlow if it takes longer.",
        exclusiveMinimum: 0,
      }),
    ),
  },
  { description: "One step: apply, converge, become ready, check." },
);
/** One step: act, converge, become ready, check. */
export type TestStep = Static<typeof TestStep>;
