import { defineResource, type ObjectType } from "@keelson/api-machinery";
import { anyObject, choice, int32, int64, listMap, time } from "@keelson/api-machinery/fields";
import { conditionsSchema, typedSchema } from "@keelson/api-machinery/schema";
import { Type, type Static } from "typebox";
import { conditionStatus, results, stepCondition } from "./expectation.ts";
import { group, version } from "./names.ts";
import { resourceRef } from "./resource-ref.ts";

const TestStep = Type.Object(
  {
    name: Type.String({ description: "Name of the step, unique within the test.", minLength: 1, maxLength: 253 }),
    resource: Type.Optional(resourceRef),
    readyCondition: Type.Optional(stepCondition("What must hold before the expectations are checked.")),
    expectations: Type.Optional(stepCondition("What must hold for the step to succeed.")),
    timeoutSeconds: Type.Optional(
      int32("Maximum seconds for the whole step, from apply to expectations. 0 means 600.", { minimum: 0 }),
    ),
  },
  { description: "One step: apply, converge, become ready, check." },
);
/** One step: apply, converge, become ready, check. */
export type TestStep = Static<typeof TestStep>;

const Repeat = Type.Object(
  {
    count: Type.Optional(int32("Number of rounds. 0 means no limit.", { minimum: 0 })),
    maxDurationSeconds: Type.Optional(
      int32("Maximum seconds for all rounds, from the start of the test. 0 means no limit.", { minimum: 0 }),
    ),
    untilFailure: Type.Optional(Type.Boolean({ description: "Stops after the first failed round." })),
    delayBetweenRounds: Type.Optional(
      int32("Seconds between the end of a round and the start of the next one.", { minimum: 0 }),
    ),
  },
  { description: "Runs the steps repeatedly. Default: one round." },
);

const spec = Type.Object(
  {
    mode: Type.Optional(
      choice(
        ["Sequential", "Parallel"],
        "Sequential (default) runs one step after another; Parallel runs all steps at the same time.",
      ),
    ),
    steps: Type.Array(TestStep, { ...listMap("name", "The steps. Names must be unique."), minItems: 1, maxItems: 500 }),
    finalExpectations: Type.Optional(
      Type.Array(
        Type.Object({
          name: Type.String({ description: "Name of the expectation.", minLength: 1, maxLength: 253 }),
          resource: Type.Optional(resourceRef),
          expectations: stepCondition("What must hold."),
        }),
        { description: "What must hold after all steps of a round have succeeded.", maxItems: 100 },
      ),
    ),
    repeat: Type.Optional(Repeat),
  },
  { description: "The test. The spec is frozen when the test starts; later changes are reported and ignored." },
);

const StepState = choice(["", "Running", "Succeeded", "Failed"], "State of the step.");

const StepStatus = Type.Object({
  name: Type.String({ description: "The step's name." }),
  index: int32("Zero-based index of the step."),
  state: Type.Optional(StepState),
  stage: Type.Optional(choice(["Apply", "Converge", "Ready", "Expect"], "Current stage of the step.")),
  applied: Type.Optional(Type.Boolean({ description: "Whether the resource has been applied or deleted in this round." })),
  reason: Type.Optional(Type.String({ description: "Reason of the failure, in CamelCase." })),
  message: Type.Optional(Type.String({ description: "What the step is waiting for, or why it failed." })),
  startedAt: Type.Optional(time("When it started.")),
  deadline: Type.Optional(time("When it times out.")),
  finishedAt: Type.Optional(time("When it finished.")),
  stageStartedAt: Type.Optional(time("When the current stage started.")),
  object: Type.Optional(
    typedSchema<{ name: string; uid?: string; resourceVersion?: string }>({
      type: "object",
      required: ["name"],
      description: "The object that was applied or deleted.",
      properties: {
        name: { type: "string", description: "Name of the object." },
        uid: { type: "string", description: "UID of the object." },
        resourceVersion: { type: "string", description: "Its resource version after the write." },
      },
    }),
  ),
  expectationResults: Type.Optional(results("Latest result of each expectation.")),
  readyConditionStatus: Type.Optional(conditionStatus("Progress of the ready condition.")),
});

/** Observed state of a {@link TestStep}. */
export type StepStatus = Static<typeof StepStatus>;

const RoundSummary = Type.Object({
  round: int32("Number of the round, from 1."),
  startedAt: time("When it started."),
  finishedAt: time("When it finished."),
  outcome: choice(["Succeeded", "Failed", "Stopped"], "Outcome of the round. Stopped means that maxDurationSeconds expired."),
  succeeded: Type.Boolean({ description: "Whether the round succeeded." }),
  failedStep: Type.Optional(Type.String({ description: "First step that failed." })),
  message: Type.Optional(Type.String({ description: "Why the round failed." })),
  stepCount: int32("Number of steps."),
  succeededSteps: int32("Number of steps that succeeded."),
  durationSeconds: Type.Number({ description: "Duration in seconds." }),
});

/** Result of one round of a repeated test. */
export type RoundSummary = Static<typeof RoundSummary>;

const status = Type.Object(
  {
    phase: Type.Optional(choice(["Pending", "Running", "Succeeded", "Failed", "Aborted"], "Phase of the test.")),
    reason: Type.Optional(Type.String({ description: "Reason of the failure: StepFailed, Timeout or InvalidConfig." })),
    message: Type.Optional(Type.String({ description: "Human-readable result of the test." })),
    startTime: Type.Optional(time("When it started.")),
    completionTime: Type.Optional(time("When it finished.")),
    observedGeneration: Type.Optional(int64("Generation of the spec that the test runs.")),
    specHash: Type.Optional(Type.String({ description: "SHA-256 of the spec that the test runs." })),
    frozenSpec: Type.Optional(anyObject("The spec that the test runs, until it finishes.")),
    currentStepIndex: Type.Optional(int32("Index of the current step.")),
    progress: Type.Optional(Type.String({ description: "Current step and number of steps, such as 2/5." })),
    currentRound: Type.Optional(int32("Number of the current round, from 1.")),
    completedRounds: Type.Optional(int32("Number of finished rounds.")),
    failedRounds: Type.Optional(int32("Number of failed rounds.")),
    failedRoundRanges: Type.Optional(Type.String({ description: "Numbers of all failed rounds, such as 1-3,7." })),
    failedRoundHistory: Type.Optional(
      Type.Array(RoundSummary, { description: "The first 10 failed rounds.", "x-kubernetes-list-type": "atomic" }),
    ),
    roundDurations: Type.Optional(
      Type.Object(
        {
          minSeconds: Type.Number({ description: "Shortest round." }),
          maxSeconds: Type.Number({ description: "Longest round." }),
          totalSeconds: Type.Number({ description: "Sum of all rounds." }),
        },
        { description: "Durations of all finished rounds." },
      ),
    ),
    roundStartedAt: Type.Optional(time("When the current round started.")),
    nextRoundAt: Type.Optional(time("When the next round starts.")),
    steps: Type.Optional(
      Type.Array(StepStatus, { description: "Steps of the current round.", "x-kubernetes-list-type": "atomic" }),
    ),
    finalExpectations: Type.Optional(conditionStatus("Progress of the final expectations.")),
    roundHistory: Type.Optional(
      Type.Array(RoundSummary, { description: "The last 10 rounds.", "x-kubernetes-list-type": "atomic" }),
    ),
    adopted: Type.Optional(
      Type.Array(
        Type.Object({
          apiVersion: Type.String({ description: "API version of the object." }),
          kind: Type.String({ description: "Kind of the object." }),
          name: Type.String({ description: "Name of the object." }),
        }),
        { description: "Objects that the test changed but did not create.", "x-kubernetes-list-type": "atomic" },
      ),
    ),
    conditions: Type.Optional(
      conditionsSchema({
        description:
          "Progressing: the test is running. Complete: the test succeeded. Failed: the test failed. SpecChangedIgnored: the spec was changed after the start.",
      }),
    ),
  },
  { description: "Status of the test." },
);

/** A test of an operator: steps that apply objects and check the result, in one or more rounds. */
export const IntegrationTest = defineResource({
  group,
  version,
  kind: "IntegrationTest",
  plural: "integrationtests",
  shortNames: ["it"],
  description: "A test of an operator: steps that apply objects and check the result.",
  spec,
  status,
  columns: [
    { name: "Phase", type: "string", jsonPath: ".status.phase" },
    { name: "Step", type: "string", jsonPath: ".status.progress" },
    { name: "Mode", type: "string", jsonPath: ".spec.mode" },
    { name: "Round", type: "integer", jsonPath: ".status.currentRound", priority: 1 },
    { name: "Completed", type: "integer", jsonPath: ".status.completedRounds", priority: 1 },
    { name: "Reason", type: "string", jsonPath: ".status.reason", priority: 1 },
    { name: "Age", type: "date", jsonPath: ".metadata.creationTimestamp" },
  ],
});
export type IntegrationTest = ObjectType<typeof IntegrationTest>;
/** Desired state of an IntegrationTest. */
export type IntegrationTestSpec = IntegrationTest["spec"];
/** Observed state of an IntegrationTest. */
export type IntegrationTestStatus = NonNullable<IntegrationTest["status"]>;
