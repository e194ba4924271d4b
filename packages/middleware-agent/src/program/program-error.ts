/**
 * The program does not respond, or rejected a request of its engine. An engine rejects with it, or with a subclass, whenever the outcome is not
 * known; the agent then answers the RPC with `ABORTED`, which callers tell apart from an agent that cannot be reached.
 */
export class ProgramError extends Error {
  override readonly name: string = "ProgramError";
  /** Marks the class across copies of this package. */
  readonly isProgramError = true;
}

/** Whether an error is a {@link ProgramError}. */
export function isProgramError(error: unknown): error is ProgramError {
  return error instanceof Error && "isProgramError" in error && error.isProgramError === true;
}
