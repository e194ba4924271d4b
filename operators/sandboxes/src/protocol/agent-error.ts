/** What an agent responds if it does not have a sandbox. */
export const unknownSandbox = "sandbox not found on this agent";

/** A request to an agent failed. */
export class AgentError extends Error {
  override readonly name = "AgentError";
  /**
   * - `Rejected`: the agent answered with an error status, see `status`. `InvalidAnswer`, `FrameTooLarge`: it does not follow the protocol.
   * - `Unreachable`: it does not report, so nothing can be sent to it.
   */
  readonly code: "Rejected" | "InvalidAnswer" | "FrameTooLarge" | "Unreachable";
  /** HTTP status of the answer, if there was one. */
  readonly status: number | undefined;

  constructor(code: AgentError["code"], message: string, options?: ErrorOptions & { readonly status?: number }) {
    super(message, options);
    this.code = code;
    this.status = options?.status;
  }
}
