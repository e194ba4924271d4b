import { int32 } from "@keelson/api-machinery/fields";
import { Type } from "typebox";

/** Schema of what a LoadTest requires to succeed. */
export const successCriteria = Type.Object(
  {
    minPassPercent: Type.Optional(
      int32("Minimum percentage of health checks that must hold for the test to succeed. Default: 100.", {
        minimum: 0,
        maximum: 100,
      }),
    ),
    maxErrorPercent: Type.Optional(
      Type.Number({
        description:
          "Maximum percentage of requests that fail or cannot be sent. Default: 0 with the built-in generator, otherwise unlimited.",
        minimum: 0,
        maximum: 100,
      }),
    ),
    minRequestsPerSecond: Type.Optional(Type.Number({ description: "Minimum requests per second.", minimum: 0 })),
    latency: Type.Optional(
      Type.Array(
        Type.Object({
          percentile: Type.Number({
            description: "The percentile, such as 99. 100 is the maximum.",
            exclusiveMinimum: 0,
            maximum: 100,
          }),
          maxMilliseconds: Type.Number({ description: "Maximum latency at the percentile.", exclusiveMinimum: 0 }),
        }),
        { description: "Maximum latencies.", maxItems: 10 },
      ),
    ),
    minCheckPercent: Type.Optional(
      Type.Number({ description: "Minimum percentage of k6 checks that hold.", minimum: 0, maximum: 100 }),
    ),
    maxTargetRestarts: Type.Optional(
      int32(
        "Maximum number of times that containers of the target restart, or Pods of the target are deleted, while the load runs. The test fails as soon as it is exceeded.",
        { minimum: 0 },
      ),
    ),
  },
  {
    description:
      "What the test requires to succeed, in addition to a workload that does not fail. A figure that is not known makes the test Inconclusive.",
  },
);
