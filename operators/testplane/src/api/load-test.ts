import { defineResource, type ObjectType } from "@keelson/api-machinery";
import { anyObject, choice, int32, int64, stringMap, time } from "@keelson/api-machinery/fields";
import { conditionsSchema, typedSchema } from "@keelson/api-machinery/schema";
import { Type } from "typebox";
import { roundVerdicts } from "../verdicts/verdict.ts";
import { checkLists, conditionStatus, type Expectation, extractor, results, stepCondition } from "./expectation.ts";
import { group, version } from "./names.ts";
import { loadGenerator } from "./load-generator.ts";
import { criterionResults, loadResult } from "./load-result.ts";
import { manifestRef, resourceRef } from "./resource-ref.ts";
import { successCriteria } from "./success-criteria.ts";

/** Checks that run periodically (TestPlane's HealthCheck). */
export interface HealthCheck {
  intervalSeconds?: number;
  timeoutSeconds?: number;
  failureThreshold?: number;
  allOf?: Expectation[];
  anyOf?: Expectation[];
}

function healthCheck(description: string) {
  const count = { type: "integer", format: "int32" } as const;
  return typedSchema<HealthCheck>({
    type: "object",
    description,
    properties: {
      intervalSeconds: { ...count, minimum: 0, description: "Seconds between checks. 0 means 10." },
      timeoutSeconds: { ...count, minimum: 0, description: "Maximum seconds for a webhook call. 0 means 10." },
      failureThreshold: { ...count, minimum: 0, description: "Number of consecutive failures that fail the test. 0 means 3." },
      ...checkLists,
    },
  });
}

const spec = Type.Object(
  {
    target: Type.Object(
      {
        resource: resourceRef,
        readyCondition: Type.Optional(
          stepCondition("What must hold before the workload starts. The default timeout is 300 s."),
        ),
      },
      { description: "The system under load." },
    ),
    workload: Type.Object(
      {
        envInjection: Type.Optional(
          Type.Array(
            Type.Object({
              name: Type.String({
                description: "Name of the value; TARGET_HOST becomes the annotation testplane.io/inject-target-host.",
                minLength: 1,
                maxLength: 56,
                pattern: "^[A-Za-z0-9]([A-Za-z0-9_-]*[A-Za-z0-9])?$",
              }),
              extract: extractor,
            }),
            { description: "Values of the target to pass to the workload's Pods as annotations.", maxItems: 100 },
          ),
        ),
        generator: Type.Optional(loadGenerator),
        resources: Type.Optional(
          Type.Array(manifestRef, {
            description: "Objects that generate the load, such as a Job that runs k6.",
            maxItems: 100,
          }),
        ),
        keepWhenDone: Type.Optional(
          Type.Boolean({
            description: "Keeps the workload running after the test has finished. Default: the workload is deleted.",
          }),
        ),
      },
      { description: "Source of the load: the built-in generator, other objects, or both." },
    ),
    healthCheck: Type.Optional(healthCheck("Checks on the target while the load runs.")),
    expectations: Type.Optional(healthCheck("Alias of healthCheck.")),
    successCriteria: Type.Optional(successCriteria),
    durationSeconds: Type.Optional(
      int32(
        "Seconds that the load runs. 0 means until the workload has completed (Jobs and Pods), or the test fails or is deleted. The built-in generator is not stopped before it has finished.",
        { minimum: 0 },
      ),
    ),
  },
  { description: "The test. The spec is frozen when the test starts; later changes are reported and ignored." },
);

const status = Type.Object(
  {
    phase: Type.Optional(choice(["Pending", "Initializing", "Running", "Succeeded", "Failed"], "Phase of the test.")),
    verdict: Type.Optional(
      choice(
        roundVerdicts,
        "What the finished test says about the target. Error: the test is wrong or was refused. Inconclusive: nothing could be observed.",
      ),
    ),
    reason: Type.Optional(Type.String({ description: "Reason of the failure, in CamelCase." })),
    message: Type.Optional(Type.String({ description: "What the test is waiting for, or why it failed." })),
    startTime: Type.Optional(time("When the test started.")),
    runningSince: Type.Optional(time("When the load started.")),
    completionTime: Type.Optional(time("When the test finished.")),
    observedGeneration: Type.Optional(int64("Generation of the spec that the test runs.")),
    specHash: Type.Optional(Type.String({ description: "SHA-256 of the spec that the test runs." })),
    frozenSpec: Type.Optional(anyObject("The spec that the test runs, until it finishes.")),
    targetApplied: Type.Optional(Type.Boolean({ description: "Whether the target has been applied." })),
    targetVersion: Type.Optional(Type.String({ description: "Resource version of the target after the apply." })),
    workloadApplied: Type.Optional(Type.Boolean({ description: "Whether the workload has been applied." })),
    workloadCleaned: Type.Optional(
      Type.Boolean({ description: "Whether the workload has been deleted after the test finished." }),
    ),
    outputCollected: Type.Optional(Type.Boolean({ description: "Whether the output of the workload has been stored." })),
    outputConfigMap: Type.Optional(Type.String({ description: "Name of the ConfigMap with the output of the workload." })),
    workloadOutput: Type.Optional(
      Type.Array(
        Type.Object({
          pod: Type.String({ description: "Name of the Pod." }),
          container: Type.String({ description: "Name of the container." }),
          key: Type.String({ description: "Key of the output in the ConfigMap." }),
          exitCode: Type.Optional(int32("Exit code, if the container has terminated.")),
          restarts: Type.Optional(int32("Number of restarts.")),
          tail: Type.Optional(Type.String({ description: "End of the output, at most 1024 characters." })),
          error: Type.Optional(Type.String({ description: "Why the output could not be read." })),
        }),
        { description: "Output of the workload's containers, collected before the workload is deleted.", maxItems: 20 },
      ),
    ),
    progress: Type.Optional(
      Type.Object(
        {
          observedAt: time("When the output was read."),
          line: Type.Optional(Type.String({ description: "Last line of the output, at most 256 characters." })),
        },
        { description: "Output of the running workload." },
      ),
    ),
    load: Type.Optional(loadResult),
    criteria: Type.Optional(criterionResults),
    targetRestarts: Type.Optional(
      int32("Number of times that containers of the target restarted or its Pods were deleted while the load ran."),
    ),
    targetPods: Type.Optional(
      Type.Array(
        Type.Object({
          uid: Type.String({ description: "UID of the Pod." }),
          restarts: int32("Restarts of its containers when the load started. 0 for Pods that were created later."),
          lastRestarts: Type.Optional(int32("Restarts of its containers when the Pod was last observed.")),
        }),
        { description: "Pods of the target since the load started.", maxItems: 500 },
      ),
    ),
    injectedValues: Type.Optional(stringMap("Values passed to the workload.")),
    readyConditionStatus: Type.Optional(conditionStatus("Progress of the ready condition.")),
    healthCheckStatus: Type.Optional(
      Type.Object(
        {
          lastCheckTime: Type.Optional(time("When the last check ran.")),
          checkCount: Type.Optional(int64("Number of checks.")),
          passCount: Type.Optional(int64("Number of checks that held.")),
          failCount: Type.Optional(int64("Number of checks that failed.")),
          consecutiveFailures: Type.Optional(int32("Number of consecutive failures up to now.")),
          lastResults: Type.Optional(results("Latest result of each check.")),
        },
        { description: "Results of the health checks." },
      ),
    ),
    conditions: Type.Optional(
      conditionsSchema({
        description:
          "Ready: the load is running. Complete: the test succeeded. Failed: the test failed. TargetReady: the target became ready. ExpectationsMet: the last check held. SpecChangedIgnored: the spec was changed after the start.",
      }),
    ),
  },
  { description: "Status of the test." },
);

/** A load test: a target, a load generator, and checks that must hold throughout. */
export const LoadTest = defineResource({
  group,
  version,
  kind: "LoadTest",
  plural: "loadtests",
  shortNames: ["lt"],
  description: "A load test: a target, a load generator, and checks that must hold throughout.",
  spec,
  status,
  columns: [
    { name: "Phase", type: "string", jsonPath: ".status.phase" },
    { name: "Verdict", type: "string", jsonPath: ".status.verdict" },
    { name: "Checks", type: "integer", jsonPath: ".status.healthCheckStatus.checkCount", priority: 1 },
    { name: "Pass", type: "integer", jsonPath: ".status.healthCheckStatus.passCount", priority: 1 },
    { name: "Fail", type: "integer", jsonPath: ".status.healthCheckStatus.failCount", priority: 1 },
    { name: "Requests", type: "integer", jsonPath: ".status.load.requests", priority: 1 },
    { name: "Errors %", type: "number", jsonPath: ".status.load.errorPercent", priority: 1 },
    { name: "Reason", type: "string", jsonPath: ".status.reason", priority: 1 },
    { name: "Age", type: "date", jsonPath: ".metadata.creationTimestamp" },
  ],
});
export type LoadTest = ObjectType<typeof LoadTest>;
/** Desired state of a LoadTest. */
export type LoadTestSpec = LoadTest["spec"];
/** Observed state of a LoadTest. */
export type LoadTestStatus = NonNullable<LoadTest["status"]>;
