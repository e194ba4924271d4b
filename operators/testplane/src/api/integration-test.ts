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
    readyCondition: Type.Optional(stepCondition("What has to hold before the expectations are looked at.")),
    expectations: Type.Optional(stepCondition("What has to hold for the step to succeed.")),
    timeoutSeconds: Type.Optional(
      int32("Seconds that the whole step may take, from applying to its expectations. 0: 600.", { minimum: 0 }),
    ),
  },
  { description: "One step: apply, converge, get ready, check." },
);
export type TestStep = Static<typeof TestStep>;

const Repeat = Type.Object(
  {
    count: Type.Optional(int32("How many rounds. 0: no limit.", { minimum: 0 })),
    maxDurationSeconds: Type.Optional(
      int32("Seconds that all rounds may take, from the start of the test. 0: no limit.", { minimum: 0 }),
    ),
    untilFailure: Type.Optional(Type.Boolean({ description: "Whether the first round that fails is the last one." })),
    delayBetweenRounds: Type.Optional(
      int32("Seconds between the end of a round and the start of the next one.", { minimum: 0 }),
    ),
  },
  { description: "Runs the steps again and again. Without this: one round." },
);

const spec = Type.Object(
  {
    mode: Type.Optional(
      choice(["Sequential", "Parallel"], "Sequential (the default): one step after the other. Parallel: all at once."),
    ),
    steps: Type.Array(TestStep, { ...listMap("name", "The steps; no two have the same name."), minItems: 1, maxItems: 500 }),
    finalExpectations: Type.Optional(
      Type.Array(
        Type.Object({
          name: Type.String({ description: "Name of the expectation.", minLength: 1, maxLength: 253 }),
          resource: Type.Optional(resourceRef),
          expectations: stepCondition("What has to hold."),
        }),
        { description: "What has to hold when all steps of a round have succeeded.", maxItems: 100 },
      ),
    ),
    repeat: Type.Optional(Repeat),
  },
  { description: "The test. It is frozen when it starts: later changes are reported and not followed." },
);

const StepState = choice(["", "Running", "Succeeded", "Failed"], "How far the step is.");

const StepStatus = Type.Object({
  name: Type.String({ description: "The step's name." }),
  index: int32("The step's place in the list, from 0."),
  state: Type.Optional(StepState),
  stage: Type.Optional(choice(["Apply", "Converge", "Ready", "Expect"], "What the step is at.")),
  applied: Type.Optional(Type.Boolean({ description: "Whether the resource was applied or deleted in this round." })),
  reason: Type.Optional(Type.String({ description: "Why it failed, in one CamelCase word." })),
  message: Type.Optional(Type.String({ description: "What it waits for, or why it failed." })),
  startedAt: Type.Optional(time("When it began.")),
  deadline: Type.Optional(time("When it has failed at the latest.")),
  finishedAt: Type.Optional(time("When it ended.")),
  stageStartedAt: Type.Optional(time("When its present stage began.")),
  object: Type.Optional(
    typedSchema<{ name: string; uid?: string; resourceVersion?: string }>({
      type: "object",
      required: ["name"],
      description: "The object as it was applied or deleted.",
      properties: {
        name: { type: "string", description: "Its name." },
        uid: { type: "string", description: "Its uid." },
        resourceVersion: { type: "string", description: "Its version after that." },
      },
    }),
  ),
  expectationResults: Type.Optional(results("The last outcome of each expectation.")),
  readyConditionStatus: Type.Optional(conditionStatus("How the ready condition goes.")),
});
export type StepStatus = Static<typeof StepStatus>;

const RoundSummary = Type.Object({
  round: int32("Which round, from 1."),
  startedAt: time("When it began."),
  finishedAt: time("When it ended."),
  outcome: choice(["Succeeded", "Failed", "Stopped"], "How it ended. Stopped: the test's time was up."),
  succeeded: Type.Boolean({ description: "Whether all of it succeeded." }),
  failedStep: Type.Optional(Type.String({ description: "The first step that failed." })),
  message: Type.Optional(Type.String({ description: "Why it failed." })),
  stepCount: int32("How many steps there are."),
  succeededSteps: int32("How many of them succeeded."),
  durationSeconds: Type.Number({ description: "How long it took." }),
});
export type RoundSummary = Static<typeof RoundSummary>;

const status = Type.Object(
  {
    phase: Type.Optional(choice(["Pending", "Running", "Succeeded", "Failed", "Aborted"], "How far the test is.")),
    reason: Type.Optional(Type.String({ description: "Why it failed: StepFailed, Timeout or InvalidConfig." })),
    message: Type.Optional(Type.String({ description: "The same for people." })),
    startTime: Type.Optional(time("When it began.")),
    completionTime: Type.Optional(time("When it ended.")),
    observedGeneration: Type.Optional(int64("The generation of the spec that runs.")),
    specHash: Type.Optional(Type.String({ description: "SHA-256 of the spec that runs." })),
    frozenSpec: Type.Optional(anyObject("The spec that runs, until the test has ended.")),
    currentStepIndex: Type.Optional(int32("The step that runs.")),
    currentRound: Type.Optional(int32("The round that runs, from 1.")),
    completedRounds: Type.Optional(int32("Rounds that ran to their end.")),
    failedRounds: Type.Optional(int32("Rounds that failed.")),
    roundStartedAt: Type.Optional(time("When the present round began.")),
    nextRoundAt: Type.Optional(time("When the next round begins.")),
    steps: Type.Optional(
      Type.Array(StepStatus, { description: "The steps of the present round.", "x-kubernetes-list-type": "atomic" }),
    ),
    finalExpectations: Type.Optional(conditionStatus("How the final expectations go.")),
    roundHistory: Type.Optional(
      Type.Array(RoundSummary, { description: "The last 10 rounds.", "x-kubernetes-list-type": "atomic" }),
    ),
    adopted: Type.Optional(
      Type.Array(
        Type.Object({
          apiVersion: Type.String({ description: "API version of its kind." }),
          kind: Type.String({ description: "Its kind." }),
          name: Type.String({ description: "Its name." }),
        }),
        { description: "Objects that the test changed and did not make.", "x-kubernetes-list-type": "atomic" },
      ),
    ),
    conditions: Type.Optional(
      conditionsSchema({
        description: "Progressing: it runs. Complete: it has ended. SpecChangedIgnored: the spec was changed.",
      }),
    ),
  },
  { description: "How the test goes." },
);

/** A test of an operator: steps that apply objects and check what becomes of them, in rounds. */
export const IntegrationTest = defineResource({
  group,
  version,
  kind: "IntegrationTest",
  plural: "integrationtests",
  shortNames: ["it"],
  description: "A test of an operator: steps that apply objects and check what becomes of them.",
  spec,
  status,
  columns: [
    { name: "Phase", type: "string", jsonPath: ".status.phase" },
    { name: "Mode", type: "string", jsonPath: ".spec.mode" },
    { name: "Round", type: "integer", jsonPath: ".status.currentRound", priority: 1 },
    { name: "Completed", type: "integer", jsonPath: ".status.completedRounds", priority: 1 },
    { name: "Reason", type: "string", jsonPath: ".status.reason", priority: 1 },
    { name: "Age", type: "date", jsonPath: ".metadata.creationTimestamp" },
  ],
});
export type IntegrationTest = ObjectType<typeof IntegrationTest>;
export type IntegrationTestSpec = IntegrationTest["spec"];
export type IntegrationTestStatus = NonNullable<IntegrationTest["status"]>;
