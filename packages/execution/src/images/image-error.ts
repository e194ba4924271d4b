/** An image is invalid or cannot be fetched. */
export class ImageError extends Error {
  override readonly name = "ImageError";
  /**
   * - `Invalid`: damaged, does not match its digest, or not an image. `TooLarge`: exceeds a limit.
   * - `NotForThisMachine`: built for other architectures only. `Unavailable`: not in the registry, or the registry is unreachable.
   * - `InUse`: a running program uses its files.
   */
  readonly code: "Invalid" | "TooLarge" | "NotForThisMachine" | "Unavailable" | "InUse";

  constructor(code: ImageError["code"], message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}
