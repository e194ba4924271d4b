/** Why a tool has no result. `code` becomes the reason of the failed step. */
export class ToolError extends Error {
  override readonly name = "ToolError";
  readonly code:
    | "CheckFailed"
    | "Timeout"
    | "NoResponse"
    | "PodNotFound"
    | "Forbidden"
    | "ExecFailed"
    | "LogsFailed"
    | "PortForwardFailed";

  constructor(code: ToolError["code"], message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}
