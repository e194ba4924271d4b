import { choice, int32, int64, time } from "@keelson/api-machinery/fields";
import { Type, type Static } from "typebox";

const amount = (description: string) => Type.Number({ description, minimum: 0 });

const Percentile = Type.Object({
  percentile: Type.Number({ description: "The percentile, such as 99.9. 100 is the maximum." }),
  milliseconds: amount("Latency that this percentage of the requests does not exceed."),
});

const countsByName = (description: string) =>
  Type.Unsafe<Record<string, number>>({
    type: "object",
    additionalProperties: { type: "integer", format: "int64" },
    description,
  });

const Point = Type.Object({
  second: amount("Start of the interval, in seconds since the start of the load."),
  seconds: amount("Length of the interval."),
  requests: int64("Requests that ended in the interval."),
  failed: int64("Requests of the interval that failed."),
  p99Milliseconds: amount("Highest 99th percentile of a second and a worker in the interval."),
});

/** Schema of a {@link LoadResult}. */
export const loadResult = Type.Object(
  {
    source: choice(["Generator", "K6"], "What measured: the built-in generator, or k6 by the summary in its output."),
    state: choice(
      ["Running", "Complete", "Partial"],
      "Running: the load runs, and percentiles are the highest of a worker. Complete: all workers have reported. Partial: some have not, were stopped, or their output could not be read.",
    ),
    observedAt: Type.Optional(time("When the figures were read.")),
    workers: Type.Optional(int32("Number of workers that have reported.")),
    seconds: amount("How long the load has run, until the last response."),
    requests: Type.Optional(int64("Number of requests that were sent and have ended. Absent if k6 did not report it.")),
    failed: Type.Optional(
      int64("Number of requests that failed: no response, a timeout, or an unexpected status. Absent if k6 did not report it."),
    ),
    notSent: Type.Optional(int64("Number of requests that were due and could not be sent, because all connections were busy.")),
    errorPercent: Type.Optional(
      amount("Percentage of the due requests that failed or were not sent. Absent if k6 did not report it."),
    ),
    requestsPerSecond: Type.Optional(
      amount("Requests per second, from the start until the last response. Absent if k6 did not report it."),
    ),
    minMilliseconds: Type.Optional(amount("Lowest latency.")),
    meanMilliseconds: Type.Optional(amount("Mean latency.")),
    percentiles: Type.Optional(
      Type.Array(Percentile, {
        description: "Latencies. Those of an open model are measured from the time at which the request was due.",
        maxItems: 30,
      }),
    ),
    statusCodes: Type.Optional(countsByName("Number of responses by HTTP status, or by gRPC code.")),
    errors: Type.Optional(countsByName("Number of failed requests by cause.")),
    bytesReceived: Type.Optional(int64("Size of the response bodies.")),
    checksPassed: Type.Optional(int64("Number of k6 checks that held.")),
    checksFailed: Type.Optional(int64("Number of k6 checks that failed.")),
    maxPauseMilliseconds: Type.Optional(
      amount("Longest event-loop stall of a worker. Percentiles below it may describe the generator and not the target."),
    ),
    timeline: Type.Optional(Type.Array(Point, { description: "The load over time.", maxItems: 120 })),
  },
  { description: "Measured load." },
);
/** Measured load. */
export type LoadResult = Static<typeof loadResult>;

/** Schema of the results of the success criteria. */
export const criterionResults = Type.Array(
  Type.Object({
    name: Type.String({ description: "The criterion, such as maxErrorPercent." }),
    expected: Type.String({ description: "What is required." }),
    actual: Type.Optional(Type.String({ description: "What was measured. Absent if it is unknown." })),
    state: choice(["Met", "NotMet", "Unknown"], "Whether the criterion is met."),
  }),
  { description: "Results of the success criteria.", maxItems: 50 },
);
/** Result of a success criterion. */
export type CriterionResult = Static<typeof criterionResults>[number];
