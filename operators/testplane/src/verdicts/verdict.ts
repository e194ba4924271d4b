/** Verdicts of a step or a round. */
export const roundVerdicts = ["Passed", "Failed", "Error", "Timeout", "Inconclusive"] as const;

/**
 * What a step or a round says about the system under test.
 *
 * - `Passed`: every check held.
 * - `Failed`: a check can never hold, or the object under test was lost.
 * - `Error`: the test is wrong, or the API server refused what it requested. Nothing is known about the system under test.
 * - `Timeout`: a check did not hold in time.
 * - `Inconclusive`: the step could not observe the system, because the API was unavailable or the test was stopped.
 */
export type RoundVerdict = (typeof roundVerdicts)[number];

/** Verdicts of a test. `Flaky`: some of its rounds passed and others failed. */
export const verdicts = [...roundVerdicts, "Flaky"] as const;

/** Verdict of a test. */
export type Verdict = (typeof verdicts)[number];

/** Number of rounds per verdict. */
export interface VerdictCounts {
  readonly passed?: number | undefined;
  readonly failed?: number | undefined;
  readonly error?: number | undefined;
  readonly timeout?: number | undefined;
  readonly inconclusive?: number | undefined;
}

const errorReasons: ReadonlySet<string> = new Set([
  "AlreadyExists",
  "ApplyFailed",
  "CollectFailed",
  "CreateFailed",
  "DeleteFailed",
  "EnvInjectionFailed",
  "ExecFailed",
  "Forbidden",
  "InvalidConfig",
  "InvalidManifest",
  "LogsFailed",
  "OutputFailed",
  "PatchFailed",
  "PodNotFound",
  "PortForwardFailed",
  "TargetApplyFailed",
  "TemplateFailed",
  "UnknownKind",
  "WorkloadApplyFailed",
]);

const timeoutReasons: ReadonlySet<string> = new Set(["Timeout", "ReadyConditionTimeout", "LoadTimeout", "NoResponse"]);

const inconclusiveReasons: ReadonlySet<string> = new Set(["Aborted", "ResultMissing"]);

/** The verdict of a step or a test that failed for this reason. */
export function verdictOfReason(reason: string): Exclude<RoundVerdict, "Passed"> {
  if (errorReasons.has(reason)) return "Error";
  if (timeoutReasons.has(reason)) return "Timeout";
  return inconclusiveReasons.has(reason) ? "Inconclusive" : "Failed";
}

/** Adds a round to the counts. */
export function countVerdict(counts: VerdictCounts | undefined, verdict: RoundVerdict): VerdictCounts {
  const key = verdict.toLowerCase() as Lowercase<RoundVerdict>;
  return { ...counts, [key]: (counts?.[key] ?? 0) + 1 };
}

/**
 * The verdict of a test with these rounds. Rounds that say nothing about the system (Error, Inconclusive) neither make a test flaky nor
 * let it pass.
 */
export function testVerdict({
  passed = 0,
  failed = 0,
  error = 0,
  timeout = 0,
  inconclusive = 0,
}: VerdictCounts): Verdict | undefined {
  if (passed > 0 && failed + timeout > 0) return "Flaky";
  if (failed > 0) return "Failed";
  if (timeout > 0) return "Timeout";
  if (error > 0) return "Error";
  if (inconclusive > 0) return "Inconclusive";
  return passed > 0 ? "Passed" : undefined;
}
