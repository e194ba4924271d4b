import { choice, int32, time } from "@keelson/api-machinery/fields";
import { typedSchema } from "@keelson/api-machinery/schema";
import { Type, type Static } from "typebox";
import { roundVerdicts } from "../verdicts/verdict.ts";
import { conditionStatus, results } from "./expectation.ts";

const StepState = choice(["", "Running", "Succeeded", "Failed"], "State of the step.");

/** Parts of a test in which a step runs. */
export const stepPhases = ["Main", "Catch", "Finally", "Cleanup"] as const;

/** Schema of a {@link StepStatus}. */
export const StepStatus = Type.Object({
  name: Type.String({ description: "The step's name." }),
  index: int32("Zero-based index of the step."),
  phase: Type.Optional(choice(stepPhases, "Part of the test in which the step runs. Default: Main.")),
  attempt: Type.Optional(int32("Number of the current attempt, from 1. Absent for the first one.")),
  nextAttemptAt: Type.Optional(time("When the next attempt starts.")),
  state: Type.Optional(StepState),
  verdict: Type.Optional(choice(roundVerdicts, "Verdict of a finished step.")),
  stage: Type.Optional(choice(["Apply", "Converge", "Ready", "Expect"], "Current stage of the step.")),
  applied: Type.Optional(Type.Boolean({ description: "Whether the resource has been applied or deleted in this round." })),
  reason: Type.Optional(Type.String({ description: "Reason of the failure, in CamelCase." })),
  message: Type.Optional(Type.String({ description: "What the step is waiting for, or why it failed." })),
  startedAt: Type.Optional(time("When it started.")),
  deadline: Type.Optional(time("When it times out.")),
  finishedAt: Type.Optional(time("When it finished.")),
  appliedAt: Type.Optional(time("When the object was applied or deleted.")),
  timeToReadySeconds: Type.Optional(Type.Number({ description: "Seconds from apply until the ready condition held." })),
  holdsSince: Type.Optional(time("Since when the checks hold that must hold consistently.")),
  stageStartedAt: Type.Optional(time("When the current stage started.")),
  unavailableSince: Type.Optional(time("Since when the API server could not be reached for the step's action.")),
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
  result: Type.Optional(
    Type.Object(
      {
        exitCode: int32("Exit code of the program."),
        stdout: Type.String({ description: "End of its standard output, at most 16 KiB." }),
        stderr: Type.String({ description: "End of its standard error, at most 16 KiB." }),
        truncated: Type.Optional(Type.Boolean({ description: "Whether stdout is only the end of the output or of the body." })),
        statusCode: Type.Optional(int32("HTTP status of the response.")),
        headers: Type.Optional(
          typedSchema<Record<string, string>>({
            type: "object",
            additionalProperties: { type: "string" },
            description: "HTTP headers of the response, with names in lower case, at most 8 KiB.",
          }),
        ),
      },
      { description: "How the program of the step ended, or the response to its request." },
    ),
  ),
  expectationResults: Type.Optional(results("Latest result of each expectation.")),
  readyConditionStatus: Type.Optional(conditionStatus("Progress of the ready condition.")),
});
/** Observed state of a step. */
export type StepStatus = Static<typeof StepStatus>;
