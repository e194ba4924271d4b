/** A failed call to an agent that must be retried. `Unreachable`: the outcome is not known. */
export class AgentCallError extends Error {
  override readonly name = "AgentCallError";
  readonly code: "Unreachable" | "Refused" | "NoToken";

  constructor(code: AgentCallError["code"], message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}
