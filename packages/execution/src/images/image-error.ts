/** What is wrong with an image, for a person to read. */
export class ImageError extends Error {
  override readonly name = "ImageError";
  /**
   * - `Invalid`: damaged, not as its digest says, or no image at all. `TooLarge`: beyond what is taken.
   * - `NotForThisMachine`: for other processors only. `Unavailable`: the registry does not have it, or was not reached.
   * - `InUse`: a program that runs has its files.
   */
  readonly code: "Invalid" | "TooLarge" | "NotForThisMachine" | "Unavailable" | "InUse";

  constructor(code: ImageError["code"], message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}
