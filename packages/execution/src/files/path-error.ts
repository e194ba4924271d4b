/** A path could not be resolved beneath its root. */
export class PathError extends Error {
  override readonly name = "PathError";
  /**
   * - `OutsideRoot`: the path, or a symbolic link in it, leaves the root. `TooManyLinks`: more than 40 symbolic links.
   * - `NotFound`, `NotDirectory`, `WrongKind`: a component is missing, is not a directory, or the target is not what was requested.
   */
  readonly code: "OutsideRoot" | "TooManyLinks" | "NotFound" | "NotDirectory" | "WrongKind";

  constructor(code: PathError["code"], message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}
