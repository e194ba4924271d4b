import { defineResource, type ObjectType } from "@keelson/api-machinery";
import { anyObject, choice, int32, int64, stringMap, time } from "@keelson/api-machinery/fields";
import { conditionsSchema, typedSchema } from "@keelson/api-machinery/schema";
import { Type } from "typebox";
import { checkLists, conditionStatus, type Expectation, extractor, results, stepCondition } from "./expectation.ts";
import { group, version } from "./names.ts";
import { manifestRef, resourceRef } from "./resource-ref.ts";

/** Checks that are made again and again (HealthCheck of TestPlane). */
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
      intervalSeconds: { ...count, minimum: 0, description: "Seconds from one check to the next. 0: 10." },
      timeoutSeconds: { ...count, minimum: 0, description: "Seconds that a webhook may take. 0: 10." },
      failureThreshold: { ...count, minimum: 0, description: "How many failures in a row end the test. 0: 3." },
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
          stepCondition("What has to hold before the workload starts. Its time is 300 s by default."),
        ),
      },
      { description: "What is put under load." },
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
            { description: "Values of the target that the workload's Pods get as annotations.", maxItems: 100 },
          ),
        ),
        resources: Type.Array(manifestRef, { description: "What makes the load.", maxItems: 100 }),
        keepWhenDone: Type.Optional(
          Type.Boolean({ description: "Leaves the workload running when the test has ended. Default: it is deleted." }),
        ),
      },
      { description: "What makes the load." },
    ),
    healthCheck: Type.Optional(healthCheck("Checks on the target while the load runs.")),
    expectations: Type.Optional(healthCheck("Another name of healthCheck.")),
    durationSeconds: Type.Optional(
      int32("Seconds that the load runs; then the test has succeeded. 0: until it fails or is deleted.", { minimum: 0 }),
    ),
  },
  { description: "The test. It is frozen when it starts: later changes are reported and not followed." },
);

const status = Type.Object(
  {
    phase: Type.Optional(choice(["Pending", "Initializing", "Running", "Succeeded", "Failed"], "How far the test is.")),
    reason: Type.Optional(Type.String({ description: "Why it failed, in one CamelCase word." })),
    message: Type.Optional(Type.String({ description: "What it waits for, or why it failed." })),
    startTime: Type.Optional(time("When it began.")),
    runningSince: Type.Optional(time("When the load began.")),
    completionTime: Type.Optional(time("When it ended.")),
    observedGeneration: Type.Optional(int64("The generation of the spec that runs.")),
    specHash: Type.Optional(Type.String({ description: "SHA-256 of the spec that runs." })),
    frozenSpec: Type.Optional(anyObject("The spec that runs, until the test has ended.")),
    targetApplied: Type.Optional(Type.Boolean({ description: "Whether the target was applied." })),
    targetVersion: Type.Optional(Type.String({ description: "The target's version after that." })),
    workloadApplied: Type.Optional(Type.Boolean({ description: "Whether the workload was applied." })),
    workloadCleaned: Type.Optional(Type.Boolean({ description: "Whether the workload was deleted after the end." })),
    injectedValues: Type.Optional(stringMap("The values that the workload got.")),
    readyConditionStatus: Type.Optional(conditionStatus("How the ready condition goes.")),
    healthCheckStatus: Type.Optional(
      Type.Object(
        {
          lastCheckTime: Type.Optional(time("When the last check was.")),
          checkCount: Type.Optional(int64("How many there were.")),
          passCount: Type.Optional(int64("How many held.")),
          failCount: Type.Optional(int64("How many did not.")),
          consecutiveFailures: Type.Optional(int32("How many of the last ones did not, in a row.")),
          lastResults: Type.Optional(results("The last outcome of each check.")),
        },
        { description: "How the checks go." },
      ),
    ),
    conditions: Type.Optional(
      conditionsSchema({
        description:
          "Ready: the load runs. TargetReady: the target was ready for it. ExpectationsMet: the last check held. SpecChangedIgnored: the spec was changed.",
      }),
    ),
  },
  { description: "How the test goes." },
);

/** A test under load: a target, what loads it, and checks that have to go on holding. */
export const LoadTest = defineResource({
  group,
  version,
  kind: "LoadTest",
  plural: "loadtests",
  shortNames: ["lt"],
  description: "A test under load: a target, what loads it, and checks that have to go on holding.",
  spec,
  status,
  columns: [
    { name: "Phase", type: "string", jsonPath: ".status.phase" },
    { name: "Checks", type: "integer", jsonPath: ".status.healthCheckStatus.checkCount", priority: 1 },
    { name: "Pass", type: "integer", jsonPath: ".status.healthCheckStatus.passCount", priority: 1 },
    { name: "Fail", type: "integer", jsonPath: ".status.healthCheckStatus.failCount", priority: 1 },
    { name: "Reason", type: "string", jsonPath: ".status.reason", priority: 1 },
    { name: "Age", type: "date", jsonPath: ".metadata.creationTimestamp" },
  ],
});
export type LoadTest = ObjectType<typeof LoadTest>;
export type LoadTestSpec = LoadTest["spec"];
export type LoadTestStatus = NonNullable<LoadTest["status"]>;
