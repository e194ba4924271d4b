import type { CheckStatus, TaskCheck } from "./task-checks.ts";

/** A result of a check. */
export interface CheckResult {
  readonly status: CheckStatus;
  /** What was seen, for users. */
  readonly message: string;
}

/** What is known about one check of a running program. */
export interface CheckState {
  /** Undefined before the first result. */
  readonly status: CheckStatus | undefined;
  readonly message: string;
  /** Results in a row that count as failures for a restart. */
  readonly failures: number;
}

/** Health of a program. A program is `passing` while all checks pass. */
export type Health = "passing" | "failing";

/** The state of a check when the program starts. */
export function initialCheckState({ initialStatus }: TaskCheck): CheckState {
  return { status: initialStatus === "passing" ? "passing" : undefined, message: "", failures: 0 };
}

/** Adds a result that was seen `ageMs` after the start of the program. `restart` says why the program is to be restarted. */
export function checkStep(
  check: TaskCheck,
  { failures }: CheckState,
  { status, message }: CheckResult,
  ageMs: number,
): { readonly state: CheckState; readonly restart?: string } {
  const { restart, name } = check;
  const isFailure = status === "critical" || (status === "warning" && restart?.ignoresWarnings !== true);
  const counted = restart === undefined || !isFailure || ageMs < restart.graceMs ? 0 : failures + 1;
  const state = { status, message, failures: counted };
  if (restart === undefined || counted < restart.limit) return { state };
  const times = restart.limit === 1 ? "once" : `${restart.limit} times in a row`;
  return { state, restart: `check ${name} failed ${times}: ${message}` };
}

/** Health of a program with these checks, and why it fails. Undefined while a check has no result and none has failed. */
export function healthOf(
  checks: readonly (readonly [TaskCheck, CheckState])[],
): { readonly health: Health; readonly message: string } | undefined {
  const failed = checks.filter(([, { status }]) => status === "warning" || status === "critical");
  const [first] = failed;
  if (first !== undefined) {
    const [{ name }, { message }] = first;
    const more = failed.length > 1 ? ` and ${failed.length - 1} more` : "";
    return { health: "failing", message: `check ${name} fails: ${message}${more}` };
  }
  if (checks.some(([, { status }]) => status === undefined)) return undefined;
  return { health: "passing", message: `${checks.length === 1 ? "its check passes" : `its ${checks.length} checks pass`}` };
}
