/** Why an agent could not start or drive its program, or read or load a snapshot. `LogMissing`: log that was not archived no longer exists. */
export type AgentErrorCode = "InvalidConfig" | "PortInUse" | "ProgramExited" | "SnapshotFailed" | "LogMissing";

/** An error of an agent. The message names the file, address or program. */
export class AgentError extends Error {
  override readonly name = "AgentError";
  readonly code: AgentErrorCode;

  constructor(code: AgentErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}
