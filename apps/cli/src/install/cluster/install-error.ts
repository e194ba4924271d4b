/** An installation that failed. The message ends with the next step. */
export class InstallError extends Error {
  override readonly name = "InstallError";
  readonly code: "NotInstalled" | "ManagedByHelm" | "NotReady" | "NotConfirmed" | "Forbidden" | "Timeout";

  constructor(code: InstallError["code"], message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}
