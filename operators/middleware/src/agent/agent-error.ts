/** Why an agent could not start or drive its program. */
export type AgentErrorCode = "InvalidConfig" | "PortInUse" | "ProgramExited";

/** An error of an agent. The message names the file, address or program. */
export class AgentError extends Error {
  override readonly name = "AgentError";
  readonly code: AgentErrorCode;

  constructor(code: AgentErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}
