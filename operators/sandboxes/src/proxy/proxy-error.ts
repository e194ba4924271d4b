/** A request that the proxy answers itself, with this HTTP status. */
export class ProxyError extends Error {
  override readonly name = "ProxyError";
  readonly status: number;

  constructor(status: number, message: string, options?: ErrorOptions) {
    super(message, options);
    this.status = status;
  }
}
