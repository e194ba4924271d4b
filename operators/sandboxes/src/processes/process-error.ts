/** An operation on the processes of a sandbox failed. */
export class ProcessError extends Error {
  override readonly name = "ProcessError";
  /**
   * - `NotFound`: no process has this id. `Conflict`: another command has this id, or the process takes no input.
   * - `TooMany`: too many processes run. `Invalid`: the position of an input is ahead of what was accepted.
   */
  readonly code: "NotFound" | "Conflict" | "TooMany" | "Invalid";

  constructor(code: ProcessError["code"], message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}
