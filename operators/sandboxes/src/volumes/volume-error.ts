/** Why a volume could not be created, deleted or used. */
export class VolumeError extends Error {
  override readonly name = "VolumeError";
  /** `InUse`: sandboxes use it. `NotFound`: this agent does not have it. `Unsupported`: the agent cannot have volumes. */
  readonly code: "InUse" | "NotFound" | "Unsupported" | "Failed";

  constructor(code: VolumeError["code"], message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}
