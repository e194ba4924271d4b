import { defineResource, type ObjectType } from "@keelson/api-machinery";
import { anyObject, choice, int32, int64, listMap, time } from "@keelson/api-machinery/fields";
import { conditionsSchema } from "@keelson/api-machinery/schema";
import { Type, type Static } from "typebox";
import { TestStep } from "./test-step.ts";
import { roundVerdicts, verdicts } from "../verdicts/verdict.ts";
import { conditionStatus, simpleCondition } from "./expectation.ts";
import { group, version } from "./names.ts";
import { resourceRef } from "./resource-ref.ts";
import { StepStatus } from "./step-status.ts";
import { clusterName, testClusters } from "./test-cluster.ts";
import { Binding, Parameter, Scenario, testSteps } from "./test-inputs.ts";

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
    flakyPolicy: Type.Optional(
      choice(
        ["Fail", "Quarantine"],
        "What a test with passed and failed rounds becomes. Fail (default): it fails. Quarantine: it succeeds and reports the verdict Flaky.",
      ),
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
    catch: Type.Optional(testSteps("Steps that run if a round failed, one after another.")),
    finally: Type.Optional(testSteps("Steps that run at the end of every round, one after another.")),
    cleanupPolicy: Type.Optional(choice(["Always", "OnSuccess", "Never"], "When the cleanup steps run. Default: Always.")),
    isolatedNamespace: Type.Optional(
      Type.Boolean({
        description:
          "Runs each round in its own namespace, which is deleted at the end of the round. Requires serviceAccountName.",
      }),
    ),
    serviceAccountName: Type.Optional(
      Type.String({
        description:
          "ServiceAccount in the test's namespace whose permissions the test has. Required for objects outside that namespace. Default: the permissions of the test plane within the test's namespace.",
        minLength: 1,
        maxLength: 253,
      }),
    ),
    clusters: Type.Optional(testClusters),
    parameters: Type.Optional(Type.Array(Parameter, listMap("name", "Parameters of the test, read as params.NAME."))),
    parameterValues: Type.Optional(anyObject("Values of parameters by name.")),
    bindings: Type.Optional(
      Type.Array(Binding, listMap("name", "Named values, read as bindings.NAME. Each may use the ones before it.")),
    ),
    scenarios: Type.Optional(
      Type.Array(Scenario, {
        ...listMap("name", "Sets of parameter values. Each is its own round."),
        minItems: 1,
        maxItems: 100,
      }),
    ),
    paused: Type.Optional(
      Type.Boolean({ description: "Starts no further step until it is false again. May be changed while the test runs." }),
    ),
    abort: Type.Optional(
      Type.Boolean({
        description:
          "Stops the test. Its finally and cleanup steps run, then it is Aborted. May be changed while the test runs.",
      }),
    ),
    ttlSecondsAfterFinished: Type.Optional(
      int32("Seconds after which a finished test is deleted. Default: never.", { minimum: 0 }),
    ),
    finalExpectations: Type.Optional(
      Type.Array(
        Type.Object({
          name: Type.String({ description: "Name of the expectation.", minLength: 1, maxLength: 253 }),
          cluster: Type.Optional(clusterName),
          resource: Type.Optional(resourceRef),
          expectations: simpleCondition("What must hold."),
        }),
        { description: "What must hold after all steps of a round have succeeded.", maxItems: 100 },
      ),
    ),
    repeat: Type.Optional(Repeat),
  },
  { description: "The test. The spec is frozen when the test starts; later changes are reported and ignored." },
);

const RoundSummary = Type.Object({
  round: int32("Number of the round, from 1."),
  startedAt: time("When it started."),
  finishedAt: time("When it finished."),
  scenario: Type.Optional(Type.String({ description: "Name of the scenario." })),
  outcome: choice(["Succeeded", "Failed", "Stopped"], "Outcome of the round. Stopped means that maxDurationSeconds expired."),
  succeeded: Type.Boolean({ description: "Whether the round succeeded." }),
  verdict: Type.Optional(choice(roundVerdicts, "Verdict of the round.")),
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
    verdict: Type.Optional(
      choice(
        verdicts,
        "What the finished test says about the system under test. Error: the test is wrong or was refused. Inconclusive: nothing could be observed. Flaky: some rounds passed and others failed.",
      ),
    ),
    reason: Type.Optional(
      Type.String({
        description:
          "Reason of the failure: StepFailed, Timeout, InvalidConfig or Flaky; Quarantined for a flaky test that succeeded.",
      }),
    ),
    message: Type.Optional(Type.String({ description: "Human-readable result of the test." })),
    startTime: Type.Optional(time("When it started.")),
    completionTime: Type.Optional(time("When it finished.")),
    observedGeneration: Type.Optional(int64("Generation of the spec that the test runs.")),
    specHash: Type.Optional(Type.String({ description: "SHA-256 of the spec that the test runs." })),
    stopping: Type.Optional(
      choice(["Aborted", "Expired"], "Why no further step is started while finally and cleanup steps run."),
    ),
    namespace: Type.Optional(Type.String({ description: "The isolated namespace of the current round." })),
    scenario: Type.Optional(Type.String({ description: "Name of the current scenario." })),
    outputs: Type.Optional(anyObject("Outputs of the steps of the current round by name.")),
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
          meanSeconds: Type.Optional(Type.Number({ description: "Mean of all rounds." })),
          p50Seconds: Type.Optional(Type.Number({ description: "Median of all rounds, exact to 1 %." })),
          p95Seconds: Type.Optional(Type.Number({ description: "95th percentile of all rounds, exact to 1 %." })),
          histogram: Type.Optional(
            Type.String({ description: "Number of rounds per duration, as bucket:count. Bucket n ends at 1 ms * 1.02^n." }),
          ),
        },
        { description: "Durations of all finished rounds." },
      ),
    ),
    roundVerdicts: Type.Optional(
      Type.Object(
        {
          passed: Type.Optional(int32("Rounds that passed.")),
          failed: Type.Optional(int32("Rounds with the verdict Failed.")),
          error: Type.Optional(int32("Rounds with the verdict Error.")),
          timeout: Type.Optional(int32("Rounds with the verdict Timeout.")),
          inconclusive: Type.Optional(int32("Rounds with the verdict Inconclusive.")),
        },
        { description: "Number of finished rounds per verdict." },
      ),
    ),
    passRate: Type.Optional(
      Type.Object(
        {
          percent: Type.Number({ description: "Share of the rounds that passed." }),
          lowPercent: Type.Number({ description: "Lower bound of the 95 % Wilson interval." }),
          highPercent: Type.Number({ description: "Upper bound of the 95 % Wilson interval." }),
        },
        { description: "Pass rate over all rounds that passed, failed or timed out." },
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
    failureBundle: Type.Optional(
      Type.Object(
        {
          configMap: Type.Optional(Type.String({ description: "ConfigMap with the files of the bundle." })),
          round: int32("Number of the failed round."),
          collectedAt: time("When it was collected."),
          error: Type.Optional(Type.String({ description: "Why the bundle could not be stored." })),
        },
        {
          description:
            "Objects, events and logs of the first failed round, as they were before its catch and cleanup steps. Values of Secrets are removed.",
        },
      ),
    ),
    foreignObjects: Type.Optional(
      Type.Array(
        Type.Object({
          cluster: Type.Optional(Type.String({ description: "Cluster of the object. Absent: that of the test." })),
          apiVersion: Type.String({ description: "API version of the object." }),
          kind: Type.String({ description: "Kind of the object." }),
          namespace: Type.Optional(Type.String({ description: "Namespace of the object." })),
          name: Type.String({ description: "Name of the object." }),
        }),
        {
          description: "Objects outside the test's namespace that the test may have created. They are deleted with the test.",
          "x-kubernetes-list-type": "atomic",
        },
      ),
    ),
    conditions: Type.Optional(
      conditionsSchema({
        description:
          "Progressing: the test is running. Paused: no further step is started. Complete: the test succeeded. Failed: the test failed. SpecChangedIgnored: the spec was changed after the start.",
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
    { name: "Verdict", type: "string", jsonPath: ".status.verdict" },
    { name: "Step", type: "string", jsonPath: ".status.progress" },
    { name: "Mode", type: "string", jsonPath: ".spec.mode" },
    { name: "Round", type: "integer", jsonPath: ".status.currentRound" },
    { name: "Completed", type: "integer", jsonPath: ".status.completedRounds", priority: 1 },
    { name: "Reason", type: "string", jsonPath: ".status.reason", priority: 1 },
    { name: "Age", type: "date", jsonPath: ".metadata.creationTimestamp" },
  ],
});
export type { StepStatus } from "./step-status.ts";
export type { TestStep } from "./test-step.ts";
export type IntegrationTest = ObjectType<typeof IntegrationTest>;
/** Desired state of an IntegrationTest. */
export type IntegrationTestSpec = IntegrationTest["spec"];
/** Observed state of an IntegrationTest. */
export type IntegrationTestStatus = NonNullable<IntegrationTest["status"]>;
