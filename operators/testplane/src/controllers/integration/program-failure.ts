import type { DeepReadonly } from "@keelson/api-machinery";
import type { StepStatus, TestStep } from "../../api/integration-test.ts";
import type { ConditionDecision } from "../condition-decision.ts";

/** Why a program failed: its result never changes, so a check that does not hold now never holds. */
export function programFailure(
  { expectations }: DeepReadonly<TestStep>,
  { result }: DeepReadonly<StepStatus>,
  outcome: ConditionDecision["outcome"],
): { readonly reason: string; readonly message: string } | undefined {
  if (result === undefined) return undefined;
  // The tool accepts any status if the step has checks, unless the step names the expected ones.
  if (result.statusCode !== undefined && result.exitCode !== 0) return { reason: "UnexpectedStatus", message: result.stderr };
  if (expectations === undefined && result.exitCode !== 0) {
    const output = (result.stderr || result.stdout).trimEnd();
    const message = `exit code ${result.exitCode}${output === "" ? "" : `: ${[...output].slice(-512).join("")}`}`;
    return { reason: "ProgramFailed", message };
  }
  const { allOf = [], anyOf = [], failWhen = [] } = expectations ?? {};
  const asks = [...allOf, ...anyOf, ...failWhen].some(({ webhook }) => webhook !== undefined);
  const mayChange = asks || expectations?.consistently !== undefined;
  return outcome.kind === "waiting" && !mayChange ? { reason: "CheckFailed", message: outcome.message } : undefined;
}
